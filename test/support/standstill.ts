/** When this process stood still: it was stopped, or its machine was. A turn of its event loop comes late then. */

/** Monotonic milliseconds. */
interface Standstill {
  readonly from: number;
  readonly until: number;
}

const lookMs = 50;
/** A process that is only busy comes back sooner. */
const leastMs = 500;

const found: Standstill[] = [];
let seenAt = performance.now();
setInterval(look, lookMs).unref();

function look(): void {
  const from = seenAt;
  seenAt = performance.now();
  if (seenAt - from > leastMs) found.push({ from, until: seenAt });
}

/** Up to now, the first one first. */
export function standstills(): readonly Standstill[] {
  look();
  return found;
}

/** A timer of the time in which this process ran: what should have come in time could not come while it stood still. */
export class RunningTimer {
  readonly #fire: () => void;
  #known = standstills().length;
  #timer: NodeJS.Timeout;

  constructor(fire: () => void, timeoutMs: number) {
    this.#fire = fire;
    this.#timer = setTimeout(() => this.#end(), timeoutMs);
  }

  clear(): void {
    clearTimeout(this.#timer);
  }

  unref(): void {
    this.#timer.unref();
  }

  #end(): void {
    const since = standstills().slice(this.#known);
    if (since.length === 0) return this.#fire();
    this.#known += since.length;
    const isBackground = !this.#timer.hasRef();
    this.#timer = setTimeout(
      () => this.#end(),
      since.reduce((sum, { from, until }) => sum + until - from, 0),
    );
    if (isBackground) this.unref();
  }
}
