/** A process that runs seeds of the simulation: asked by a message with a range, it answers with what became of it. */
import { runSeeds } from '../run.ts';

process.on('message', ({ from, count }: { from: number; count: number }) => {
  void runSeeds({ from, count }).then(({ seeds, failures, counters, simulatedMs }) =>
    process.send?.({ seeds, failures, counts: counters.all(), simulatedMs }),
  );
});
