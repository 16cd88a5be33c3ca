declare module 'process-on-spawn' {
  const processOnSpawn: { removeAllListeners(): void };
  // biome-ignore lint/style/noDefaultExport: it has no other.
  export default processOnSpawn;
}
