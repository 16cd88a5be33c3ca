/** A tenth of the seeds that run with every change. */
import t from 'tap';
import { seedsHold } from './suite.ts';

seedsHold(t, 4501, 500);
