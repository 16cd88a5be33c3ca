/** Every part of the fault campaign, in the order in which it runs. */
import { cuts } from '../faults/cuts.ts';
import { ext4Cuts } from '../faults/ext4/ext4-cuts.ts';
import { fullDisk } from '../faults/full-disk.ts';
import { hubCuts } from '../faults/hub-cuts.ts';
import { kills, sendKills } from '../faults/kills.ts';
import { logChanges } from '../faults/log-changes.ts';
import type { Part } from '../faults/part.ts';
import { commitKills } from '../faults/points.ts';
import { rot } from '../faults/rot.ts';
import { storeRot } from '../faults/rot-store.ts';
import { upkeepKills } from '../faults/upkeep.ts';
import { hostileInput } from '../hostile/campaign-part.ts';
import { isolation } from '../isolation/campaign-part.ts';
import { soakPart } from '../overload/soak.ts';
import { simulation } from '../simulate/campaign-part.ts';

export interface Planned {
  readonly part: Part;
  /** The option that says how many, and the share of it that this part gets. */
  readonly option: 'kills' | 'cuts' | 'corruptions' | 'commits' | 'seeds' | 'inputs' | 'minutes' | 'days';
  readonly share: number;
}

export const parts: readonly Planned[] = [
  { part: kills, option: 'kills', share: 0.25 },
  { part: sendKills, option: 'kills', share: 0.25 },
  { part: commitKills, option: 'kills', share: 0.25 },
  { part: upkeepKills, option: 'kills', share: 0.25 },
  { part: cuts, option: 'cuts', share: 0.55 },
  { part: ext4Cuts, option: 'cuts', share: 0.2 },
  { part: logChanges, option: 'cuts', share: 0.2 },
  { part: hubCuts, option: 'cuts', share: 0.05 },
  { part: storeRot, option: 'corruptions', share: 0.9 },
  { part: rot, option: 'corruptions', share: 0.1 },
  { part: fullDisk, option: 'commits', share: 1 },
  { part: simulation, option: 'seeds', share: 1 },
  { part: hostileInput, option: 'inputs', share: 1 },
  { part: isolation, option: 'minutes', share: 1 },
  { part: soakPart, option: 'days', share: 1 },
];
