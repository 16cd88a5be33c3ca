/**
 * Files outside this folder that wait in real time, each with its reason. Everything else waits for what happens, or for a clock that the
 * test moves on. What is listed bears a machine that stands still for ten seconds at any of its waits.
 */
export const realTime: Readonly<Record<string, string>> = {
  'test/cluster/failover.test.ts': 'a kill comes at another moment of a write each time',
  'test/cluster/lists.test.ts': 'two objects never have the same millisecond',
  'test/cluster/load.ts': 'a client of other processes tries again after a while',
  'test/cluster/retention.test.ts': 'nodes wait for each other while their time is moved on',
  'test/cluster/three.test.ts': 'a kill comes at another moment of a write each time',
  'test/console/child.ts': 'the heap of another process is sampled',
  'test/console/screenshots.ts': 'pictures are taken while people would watch',
  'test/delivery/fault-matrix.test.ts': 'a receiver that drips its answer over a real socket',
  'test/faults/kills.ts': 'a process is killed at a moment of chance',
  'test/faults/load.ts': 'a client of another process tries again after a while',
  'test/faults/rot.ts': 'load on another process is polled',
  'test/faults/upkeep.ts': 'load on another process is polled',
  'test/faults/world.ts': 'partners of another process answer after a time of chance',
  'test/hostile/attacks.test.ts': 'a client that was shed tries again after a while',
  'test/hostile/partner-answers.test.ts': 'a partner that drips its answer over a real socket',
  'test/hostile/wire.ts': 'a connection that hangs is held, and given up, over a real socket',
  'test/hub/flights.test.ts': 'an end that comes too early has its time to show itself',
  'test/overload/pace.test.ts': 'the system takes what it holds of an answer',
  'test/overload/process-pause.test.ts': 'a process stands still for longer than a second',
  'test/overload/readers.test.ts': 'a limit, so that what is never cut ends',
  'test/overload/shedding.test.ts': 'load on another process, paced by its clients',
  'test/overload/soak.ts': 'the memory of another process comes to rest',
  'test/partners/client.test.ts': 'limits of a client over real sockets',
  'test/security/rotation.test.ts': 'a process is killed at a moment of chance',
  'test/spec/session-path.test.ts': 'it shares no code with the tests of the hub, and polls by itself',
  'test/storage/postgres-faults.test.ts': 'a writer tries again while its database is away',
  'test/storage/postgres-node/child.ts': 'a process polls whether the log is its own',
  'test/storage/support.ts': 'state of a database is polled',
};
