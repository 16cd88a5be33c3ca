/** Days of all faults, most of which is waiting: beside the others it costs little. */
import { runFolders } from './support/folders.ts';

await runFolders('overload/soak');
