/** Simulated worlds and the mutants that they must find. */
import { runFolders } from './support/folders.ts';

await runFolders('simulate');
