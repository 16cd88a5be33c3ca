/** What needs PostgreSQL: the store on it, and several nodes. One server serves all of them but those that kill or change theirs. */
import { runFolders } from './support/folders.ts';

await runFolders('storage/postgres-*', 'cluster', 'hub/log-order');
