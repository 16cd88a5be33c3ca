/** Kills, power cuts, rot and full disks, a slice of the campaign. */
import { runFolders } from './support/folders.ts';

await runFolders('faults');
