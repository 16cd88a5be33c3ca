/** The hub's inside: state, supervision, orphan stops, pulls, retention. */
import { runFolders } from './support/folders.ts';

await runFolders('hub', 'regression');
