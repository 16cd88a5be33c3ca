/** The stores: their common exam, damage, full disks, trims. */
import { runFolders } from './support/folders.ts';

await runFolders('storage');
