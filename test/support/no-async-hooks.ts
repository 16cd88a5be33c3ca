/**
 * Switches async hooks off for this process. The runner sets one that follows every promise and callback, so that it can tell in which
 * subtest something was thrown that nobody caught; that takes a quarter of the CPU time of tests with a hub in their process.
 * To be imported before the runner.
 */
import async_hooks, { type AsyncHook } from 'node:async_hooks';
import { syncBuiltinESMExports } from 'node:module';

const inert: AsyncHook = { enable: () => inert, disable: () => inert };
async_hooks.createHook = () => inert;
syncBuiltinESMExports();
