/**
 * What a demo runs on, so that one walk serves both kinds: `demo.ts` builds it with one process, `demo-cluster.ts` with
 * two nodes.
 */
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

/** A hub, and two partners that have not registered with it yet. */
export interface Stage {
  readonly context: PathContext;
  readonly path: readonly Step[];
  readonly hubOf?: HubOf;
  /** `opening` is printed before the path, `moral` behind the line that says that the path was walked. */
  readonly opening: readonly string[];
  readonly moral: string;
  /** Restarts nodes that have ended; called before each further session. */
  readonly restore: () => Promise<void>;
  /** URLs of the consoles by title, and suggestions for the user; printed when the demo stays up. */
  readonly consoles: () => Readonly<Record<string, string>>;
  readonly toTry: () => readonly string[];
}

export type CleanUps = (() => Promise<unknown>)[];
