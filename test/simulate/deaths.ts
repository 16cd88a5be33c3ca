/** When the process of a simulated hub dies, and how long it stays away. */
import type { Sometimes } from './counters.ts';
import type { Troubles } from './memory-store.ts';
import type { World } from './world.ts';

type Point = Parameters<Troubles['point']>[0] | 'call.before' | 'call.after';

/** How long nobody starts the process again, ms. */
const downsMs = { short: [1, 8_000], minutes: [60_000, 900_000], hours: [3_600_000, 10_800_000] } as const;
type Down = keyof typeof downsMs;
const downs = { short: 40, minutes: 4, hours: 1 };

export class Deaths {
  readonly #world: World;
  #armed: { point: Point; count: number; name: Sometimes } | null = null;
  /** Type of a fact behind whose commit the process dies, before anything follows from it. */
  #behind: string | null = null;
  #downFor: Down | null = null;

  constructor(world: World) {
    this.#world = world;
  }

  /** The process dies when it comes to a named moment for the n-th time. */
  arm(point: Point, count: number, name: Sometimes): void {
    this.#armed = { point, count, name };
  }

  /** The process dies behind the next commit of such a fact. */
  armBehind(type: string): void {
    this.#behind = type;
  }

  disarm(): void {
    [this.#armed, this.#behind] = [null, null];
  }

  /** A batch of the store holds these facts. */
  wrote(types: readonly string[]): void {
    if (this.#behind === null || !types.includes(this.#behind)) return;
    this.#behind = null;
    this.arm('write.after', 1, 'a crash between a fact and what follows from it');
  }

  /** The process comes to a named moment. */
  readonly point = (point: Point): void => {
    const armed = this.#armed;
    if (armed?.point !== point || this.#world.isHealing || --armed.count > 0) return;
    this.#world.crash(armed.name);
  };

  /** It dies now, and stays away for so long. */
  now(down: Down): void {
    if (this.#world.isHealing) return;
    this.#downFor = down;
    this.#world.crash('a crash at any moment');
  }

  /** How long it stays away this time. */
  downMs(): number {
    const { isHealing, chance, hit } = this.#world;
    const down: Down = isHealing ? 'short' : (this.#downFor ?? chance.weighted(downs));
    this.#downFor = null;
    if (down !== 'short') hit('a process was down for minutes');
    const [least, most] = downsMs[down];
    return chance.between(least, most);
  }
}
