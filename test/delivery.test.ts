/** Store and forward: order, retries, circuits, dead letters, re-drive. */
import { runFolders } from './support/folders.ts';

await runFolders('delivery');
