#!/usr/bin/env node
/**
 * Begins the command with enough threads: the store reads and writes by threads of a pool, four by default.
 *
 * OCPI-HUB-1  The size is read when the pool is first used, and an ES module is read by the pool. So this one is CommonJS (`package.json` beside
 *     it) and imports nothing before. Where Node loads modules before it (`--import`), the size
 *     has to be set in the environment.
 * OCPI-HUB-2  A size that the operator has set counts.
 */
process.env.UV_THREADPOOL_SIZE ||= '64';
/** The bundle of `src/cli/program.ts`: a few files in place of hundreds, which a start would have to find and link. */
const program: string = '../run/program.js';
void import(program);
