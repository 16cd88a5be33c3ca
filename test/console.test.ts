/** The console in a real browser, and the inspector. */
import { runFolders } from './support/folders.ts';

await runFolders('console');
