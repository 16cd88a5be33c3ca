/** The embedded store: the common exam of stores, damage, full disks, trims. */
import { runFolders } from './support/folders.ts';

await runFolders('storage', '!storage/postgres-*');
