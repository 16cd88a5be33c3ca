/** The commands, as built, in processes of their own. */
import { runFolders } from './support/folders.ts';

await runFolders('cli');
