/** Bent requests, attacks and the access matrix. */
import { runFolders } from './support/folders.ts';

await runFolders('hostile');
