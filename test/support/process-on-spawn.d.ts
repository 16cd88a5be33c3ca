declare module 'process-on-spawn' {
  const processOnSpawn: { removeAllListeners(): void };
  export = processOnSpawn;
}
