/**
 * What a hub answers, and logs, from the moment it listens until its store is open: opening reads from the disk, and
 * may have to inspect a damaged store first.
 *
 * STARTING-1  `/healthz` answers 200 and `/readyz` 503 with the step and its progress; everything else is refused with
 *     503 in the format of its door.
 * STARTING-2  The log has a line when the store begins to open, one every `logEveryMs` while it opens, and one when it
 *     is open: a start is never silent. A store that opened by its seal has another when all of it is verified.
 * STARTING-3  A store that turns out to be damaged while the hub restores from it is opened again, once: the hub begins as
 *     it would have with the damage known.
 * STARTING-4  A start that fails for what passes without it (a full disk, a database that is away) is tried again every
 *     `retryMs` until it succeeds or the process gets SIGTERM or SIGINT; `/readyz` and the log say why.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Store, StoreHealth } from '../storage/contract.ts';
import type { Opening } from '../storage/level/verify.ts';
import { pathOf, refuse } from './cluster/refusal.ts';
import { type Clock, every, sleep } from './kit/clock.ts';
import type { createLog } from './log.ts';

const logEveryMs = 5000;
const retryMs = 2000;

/** [STARTING-3] */
export class FoundDamaged extends Error {
  override readonly name = 'FoundDamaged';
}

/** The process got SIGTERM or SIGINT while its start waited. [STARTING-4] */
class StartStopped extends Error {
  override readonly name = 'StartStopped';
}

type Reopening = Pick<Store, 'onHealth' | 'health'>;

/** Runs a part of a start. Rejects with `FoundDamaged` when it fails because the store is being reopened, or was. */
export async function reopenable<T>(store: Reopening, work: () => Promise<T>): Promise<T> {
  let failure: string | null = null;
  const look = ({ state, reason }: Pick<StoreHealth, 'state' | 'reason'>) => {
    if (state === 'failed') failure = reason ?? state;
  };
  store.onHealth(look);
  try {
    return await work();
  } catch (error) {
    look(store.health());
    if (failure === null) throw error;
    throw new FoundDamaged(`the store was reopened during the start: ${failure}`, { cause: error });
  }
}

/** Runs a recovery. Rejects with `FoundDamaged` also when the store was quarantined meanwhile. */
export async function restored(store: Reopening, recover: () => Promise<void>): Promise<void> {
  const before = store.health().state;
  await reopenable(store, recover);
  const { state, reason } = store.health();
  if (state === 'quarantined' && before !== state) throw new FoundDamaged(reason ?? state);
}

export class Starting {
  readonly #log: ReturnType<typeof createLog>;
  readonly #clock: Clock;
  readonly #begun: number;
  readonly #stop: () => void;
  readonly #ending: AbortSignal | undefined;
  #opening: Opening = { step: 'opening the store', verified: 0, events: null };

  /** `ending`: aborted by SIGTERM or SIGINT. */
  constructor(log: ReturnType<typeof createLog>, clock: Clock, ending?: AbortSignal) {
    this.#log = log;
    this.#clock = clock;
    this.#ending = ending;
    this.#begun = clock.monotonic();
    log.info({}, 'the hub listens and answers 503 until its store is open');
    this.#stop = every(clock, logEveryMs, () => log.info(this.#opening, 'the store is not open yet'));
  }

  readonly progress = (opening: Opening): void => {
    this.#opening = opening;
  };

  readonly answer = (request: IncomingMessage, response: ServerResponse): void => {
    const path = pathOf(request);
    if (path === '/healthz') return say(request, response, 200, { status: 'alive' });
    if (path !== '/readyz') return refuse(request, response, 'the hub is opening its store');
    const { step, verified, events } = this.#opening;
    const reason = events ? `${step}, ${Math.floor((100 * verified) / events)} %` : step;
    say(request, response, 503, { status: 'not ready', store: 'opening', reason, verified, events });
  };

  /** [STARTING-4] */
  async until<T>(work: () => Promise<T>, passes: (error: unknown) => boolean): Promise<T> {
    for (let said = ''; ; ) {
      try {
        return await work();
      } catch (error) {
        if (!passes(error)) throw error;
        const reason = error instanceof Error ? error.message : String(error);
        this.progress({ step: `waiting: ${reason}`, verified: 0, events: null });
        if (reason !== said) this.#log.warn({ reason }, 'the hub cannot start yet, and tries again every two seconds');
        said = reason;
      }
      await sleep(this.#clock, retryMs, this.#ending);
      if (this.#ending?.aborted) throw new StartStopped('told to stop before it had started');
    }
  }

  opened(): void {
    this.#stop();
    const { verified, events } = this.#opening;
    const seconds = (this.#clock.monotonic() - this.#begun) / 1000;
    this.#log.info({ verified, events, seconds }, 'the store is open');
  }

  readonly verified = (events: number): void => {
    const seconds = (this.#clock.monotonic() - this.#begun) / 1000;
    this.#log.info({ events, seconds }, 'the whole store is verified');
  };

  /** Ends the log lines of a start that failed. */
  close(): void {
    this.#stop();
  }
}

function say({ method }: IncomingMessage, response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body);
  const retry = status === 503 ? { 'Retry-After': '1' } : {};
  const headers = { 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': Buffer.byteLength(text) };
  response.writeHead(status, { ...headers, ...retry }).end(method === 'HEAD' ? undefined : text);
}
