/** What one partner, or too many, may take of a hub. */
import { runFolders } from './support/folders.ts';

await runFolders('overload');
