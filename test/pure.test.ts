/** What needs no process, socket or disk of its own: rules of the domain, machines, and of the house; what a bench counts. */
import { runFolders } from './support/folders.ts';

await runFolders('domain', 'machines', 'house', 'bench');
