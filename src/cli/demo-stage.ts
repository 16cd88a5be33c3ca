/** What a demo is shown on: made by `demo.ts` of one process, and by `demo-cluster.ts` of two nodes. */
import type { HubOf } from '../sandbox/narrate.ts';
import type { PathContext, Step } from '../sandbox/session-path.ts';

export interface DemoFlags {
  readonly cluster?: boolean;
  readonly once?: boolean;
  readonly stay?: boolean;
  readonly port: string;
  readonly dataDir?: string;
  readonly pause: string;
}

/** What is shown: a hub, and two partners that it does not know yet. */
export interface Stage {
  readonly context: PathContext;
  readonly path: readonly Step[];
  readonly hubOf?: HubOf;
  /** Said of the hub before the path, and behind the words that it was walked. */
  readonly opening: readonly string[];
  readonly moral: string;
  /** Brings back what has ended, before another session. */
  readonly restore: () => Promise<void>;
  /** Consoles by their titles, and what can be tried, when it stays up. */
  readonly consoles: () => Readonly<Record<string, string>>;
  readonly toTry: () => readonly string[];
}

export type CleanUps = (() => Promise<unknown>)[];
