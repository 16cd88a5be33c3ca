/** The store on PostgreSQL. One server serves all of its tests but those that kill or change theirs. */
import { runFolders } from './support/folders.ts';

await runFolders('storage/postgres-*');
