/** PostgreSQL: the store on it, and several nodes. One server serves all tests but those that kill or change theirs. */
import { runFolders } from './support/folders.ts';

await runFolders('cluster', 'storage/postgres-*');
