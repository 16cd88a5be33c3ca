/** Every part of the fault campaign, in the order in which it runs. */
import { hostileInput } from '../hostile/campaign-part.ts';
import { soakPart } from '../overload/soak.ts';
import { simulation } from '../simulate/campaign-part.ts';
import { cuts } from './cuts.ts';
import { fullDisk } from './full-disk.ts';
import { hubCuts } from './hub-cuts.ts';
import { kills, sendKills } from './kills.ts';
import { logChanges } from './log-changes.ts';
import type { Part } from './part.ts';
import { commitKills } from './points.ts';
import { rot } from './rot.ts';
import { storeRot } from './rot-store.ts';
import { upkeepKills } from './upkeep.ts';

export interface Planned {
  readonly part: Part;
  /** The option that says how many, and the share of it that this part gets. */
  readonly option: 'kills' | 'cuts' | 'corruptions' | 'commits' | 'seeds' | 'inputs' | 'days';
  readonly share: number;
}

export const parts: readonly Planned[] = [
  { part: kills, option: 'kills', share: 0.25 },
  { part: sendKills, option: 'kills', share: 0.25 },
  { part: commitKills, option: 'kills', share: 0.25 },
  { part: upkeepKills, option: 'kills', share: 0.25 },
  { part: cuts, option: 'cuts', share: 0.9 },
  { part: logChanges, option: 'cuts', share: 0.05 },
  { part: hubCuts, option: 'cuts', share: 0.05 },
  { part: storeRot, option: 'corruptions', share: 0.9 },
  { part: rot, option: 'corruptions', share: 0.1 },
  { part: fullDisk, option: 'commits', share: 1 },
  { part: simulation, option: 'seeds', share: 1 },
  { part: hostileInput, option: 'inputs', share: 1 },
  { part: soakPart, option: 'days', share: 1 },
];
