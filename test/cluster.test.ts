/** Several nodes on real PostgreSQL servers. */
import { runFolders } from './support/folders.ts';

await runFolders('cluster');
