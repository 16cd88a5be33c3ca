/** A tenth of the seeds that run with every change. */
import { t } from '../support/tap.ts';
import { seedsHold } from './suite.ts';

seedsHold(t, 2001, 500);
