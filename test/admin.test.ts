/** The admin API and what a hub shows of itself. */
import { runFolders } from './support/folders.ts';

await runFolders('admin');
