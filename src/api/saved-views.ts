/** Answers about saved views. */
import { z } from 'zod';
import { instant, type View } from './common.ts';

export const savedView = z.object({
  id: z.string(),
  name: z.string(),
  path: z.string().meta({ description: 'address below /console, with its query' }),
  by: z.string().meta({ description: 'name of the operator who saved it' }),
  at: instant,
});

export type SavedViewView = View<typeof savedView>;
