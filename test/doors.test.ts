/** What comes in and goes out over HTTP: parsing, limits, connections, TLS, fake partners of the demo. */
import { runFolders } from './support/folders.ts';

await runFolders('transport', 'partners', 'sandbox', 'security');
