#!/usr/bin/env node
/**
 * Begins the command with what has to be set before the first module is read: threads, and rules of V8.
 *
 * OCPI-HUB-1  The store reads and writes by threads of a pool, four by default. Its size is read when the pool is first used,
 *     and an ES module is read by the pool. So this one is CommonJS (`package.json` beside it) and imports no other module
 *     before. Where Node loads modules before it (`--import`), the size has to be set in the environment.
 * OCPI-HUB-2  A size that the operator has set counts.
 * OCPI-HUB-3  V8 makes objects in the old generation of the heap where they mostly survived the young one. Under load what a
 *     request needs does, while it waits for its sync. Each later request is then promoted with all that it refers to, and
 *     stays until a full collection.
 * OCPI-HUB-4  A Node that is too old ends with 2 and one line that says so, before anything asks it for what it does not have.
 * OCPI-HUB-5  WebAssembly is compiled once and not optimized. Node has undici's parser of answers in it, whose optimization takes 38 MiB of
 *     native memory (Node 24: 25), most of which the C library keeps, and saves a sixth of the time that unusual answers take.
 */
const { getBuiltinModule }: Partial<NodeJS.Process> = process;
if (getBuiltinModule === undefined) {
  const { node } = process.versions;
  process.stderr.write(
    `ocpi-hub: Node ${node} is too old: install Node 24; 20.18 and 22.3 are the oldest that will do\n`,
  );
  process.exit(2);
}
process
  .getBuiltinModule('node:v8')
  .setFlagsFromString('--no-allocation-site-pretenuring --no-wasm-tier-up --no-wasm-dynamic-tiering');
process.env.UV_THREADPOOL_SIZE ||= '64';
/** The bundle of `src/cli/program.ts`: a few files in place of hundreds, which a start would have to find and link. */
const program: string = '../run/program.js';
void import(program);
