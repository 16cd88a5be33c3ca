/** The campaign's part of hostile input: so many bent requests against one hub. `unexplained` counts whatever must not be. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { nothing, type Part } from '../faults/part.ts';
import { bombard } from './bombardment.ts';
import { startScene } from './scene.ts';

export const hostileInput: Part = {
  name: 'hostile input',
  kinds: 1,
  async run({ seed, count }, progress) {
    const directory = await mkdtemp(join(tmpdir(), 'hostile-input-'));
    const scene = await startScene(directory);
    try {
      const result = await bombard(scene, { seed, numbers: Array.from({ length: count }, (_, n) => n) }, progress);
      const failed = [...result.byStatus]
        .filter(([status]) => status === 500)
        .reduce((sum, [, times]) => sum + times, 0);
      return {
        ...{ ...nothing, done: result.inputs, unexplained: result.offences.length },
        findings: result.offences.map((what) => `seed ${seed}: ${what}`),
        figures: {
          answers: result.answers,
          'answers 500': failed,
          events: result.recorded,
          residentMbMax: Math.round(result.residentMaxMb),
        },
      };
    } finally {
      await scene.close();
      await rm(directory, { recursive: true, force: true });
    }
  },
};
