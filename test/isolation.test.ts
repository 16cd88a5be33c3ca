/** Whatever one partner does, another one notices nothing of it. */
import { runFolders } from './support/folders.ts';

await runFolders('isolation');
