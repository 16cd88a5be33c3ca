/** Several nodes on one PostgreSQL, which serves all of them but those that kill or change theirs. */
import { runFolders } from './support/folders.ts';

await runFolders('cluster', 'hub/log-order');
