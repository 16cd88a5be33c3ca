/** Every rule of the interface, as a partner sees it. */
import { runFolders } from './support/folders.ts';

await runFolders('conformance', 'spec', 'e2e');
