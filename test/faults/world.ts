/**
 * A hub in a process of its own between two CPOs and two eMSPs that outlive it: real HTTP on every side. The partners write down
 * what they get; now and then they answer late, turn a call away or cut it off, as partners do.
 *
 * TEST-FAULTS-WORLD-1  A kill ends a life only when the process is gone and what it had sent has been read. [TEST-LEDGER-3]
 * TEST-FAULTS-WORLD-2  A call that the hub leaves without an answer is strange, and ends the wait for more of them.
 * TEST-FAULTS-WORLD-3  Commands are answered at once and always: the hub sends none of them twice, so there is nothing to send again.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../src/sandbox/free-port.ts';
import { Unanswered } from '../support/caller.ts';
import { type ChildHub, type ChildHubOptions, type Starting, spawnChildHub } from '../support/child-hub.ts';
import { admin, type PlainPartner, plainPartner, type Received, type Reply } from '../support/plain-partner.ts';
import { type Ending, emptyLedger, type Ledger } from './ledger.ts';
import type { Random } from './random.ts';

export interface World {
  readonly ledger: Ledger;
  readonly random: Random;
  /** Where the hub keeps its database. */
  readonly store: string;
  readonly dataDir: string;
  readonly cpos: readonly PlainPartner[];
  readonly emsps: readonly PlainPartner[];
  readonly partner: (id: string) => PlainPartner;
  /** About so many requests are made of a life before its kill, at most. */
  readonly requestsMax: number;
  /** Called with every call that a receiver took, before it answers. */
  onTaken: () => void;
  /** Starts a process; a new life. */
  spawn(options?: Pick<ChildHubOptions, 'run' | 'env'>): Starting;
  /** Whether a hub listens now: all senders but one pause while none does. */
  isUp: boolean;
  /** No sender sends. */
  isPaused: boolean;
  /** Kills that came before the hub was where it was to be killed. */
  missed: number;
  /** What later lives run; the built command when undefined. */
  run: readonly string[] | undefined;
  /** One call of a partner, and what it was told. */
  call(partner: PlainPartner, method: string, path: string, body?: string): Promise<Told>;
  close(): Promise<void>;
}

export interface Told {
  readonly ending: Ending;
  readonly answer: string;
}

const settings = {
  ...{ HUB_RATE_OTHER_PER_MIN: '1000000', HUB_RATE_COMMANDS_PER_MIN: '1000000', HUB_RATE_LISTS_PER_MIN: '1000000' },
  ...{ HUB_RETRY_SCHEDULE_S: '0.05,0.1,0.2,0.5,1', HUB_CIRCUIT_OPEN_MS: '100' },
};

const base = '/ocpi/2.2.1';

/** Partners, registered and routed with one another, and the first hub process. */
export async function makeWorld(
  dataDir: string,
  random: Random,
  requestsMax = 150,
): Promise<{ world: World; hub: ChildHub }> {
  const ledger = emptyLedger();
  const port = await freePort();
  const make = (role: 'CPO' | 'EMSP', partyId: string) =>
    plainPartner({ role, countryCode: 'NL', partyId, answer: (received) => answer(`NL-${partyId}`, received) });
  const cpos = [await make('CPO', 'CP1'), await make('CPO', 'CP2')];
  const emsps = [await make('EMSP', 'EM1'), await make('EMSP', 'EM2')];
  const partners = new Map([...cpos, ...emsps].map((partner) => [partner.id, partner]));
  const world: World = {
    ...{
      ledger,
      random,
      requestsMax,
      dataDir,
      store: join(dataDir, 'store'),
      cpos,
      emsps,
      isUp: false,
      isPaused: false,
      missed: 0,
      run: undefined,
      onTaken: () => {},
    },
    partner(id) {
      const found = partners.get(id);
      if (!found) throw new Error(`no partner ${id}`);
      return found;
    },
    spawn({ run = world.run, env } = {}) {
      ledger.life += 1;
      return spawnChildHub({
        dataDir,
        port,
        env: { ...settings, ...env },
        ...(run && { run }),
      });
    },
    call: (...request) => call(ledger, ...request),
    close: async () => void (await Promise.all([...partners.values()].map((partner) => partner.close()))),
  };

  async function answer(receiver: string, received: Received): Promise<Reply> {
    const path = received.path.slice(base.length);
    const { body, method } = received;
    if (/^\/commands\//.test(path)) return commandAnswer(receiver, path, body);
    const isTaken = !random.happens(0.03);
    ledger.arrivals.push({ receiver, method, path, body, life: ledger.life, isTaken });
    if (!isTaken) return random.happens(0.5) ? { isCut: true } : { status: 503, text: '{"status_code":3000}' };
    const lateMs = random.happens(0.15) ? 5 + random.below(25) : 0;
    world.onTaken();
    if (lateMs > 0) await sleep(lateMs);
    return {};
  }

  /** A CPO takes the command and sends its result soon; an eMSP takes the result. */
  function commandAnswer(receiver: string, path: string, body: string): Reply {
    const number = Number(path.split('/')[3] ?? (JSON.parse(body) as Record<string, string>).authorization_reference);
    const sent = ledger.commands.get(number);
    if (!sent) {
      ledger.strange.push(`${receiver} got a command that nobody sent: ${path} ${body}`);
      return {};
    }
    if (path.split('/')[3] !== undefined) {
      const result = sent.results.find((known) => known.body === body);
      if (result) result.relayed += 1;
      else ledger.strange.push(`${receiver} got a result that nobody sent: ${path} ${body}`);
      return {};
    }
    sent.forwarded += 1;
    world.onTaken();
    const { response_url } = JSON.parse(body) as { response_url: string };
    setTimeout(() => void sendResult(receiver, sent.number, new URL(response_url).pathname.slice('/ocpi'.length)), 5);
    return { body: { result: 'ACCEPTED', timeout: 25 } };
  }

  async function sendResult(cpo: string, number: number, path: string): Promise<void> {
    ledger.number += 1;
    const text = `result ${ledger.number}`;
    const body = JSON.stringify({ result: 'ACCEPTED', message: [{ language: 'en', text }] });
    const result = { body, ending: 'open' as Ending, answer: '', relayed: 0 };
    ledger.commands.get(number)?.results.push(result);
    Object.assign(result, await world.call(world.partner(cpo), 'POST', path, body));
  }

  const hub = await world.spawn().listening;
  for (const partner of partners.values()) await partner.register(hub);
  for (const emsp of emsps)
    for (const cpo of cpos) await admin(hub, 'PUT', `/routes/${emsp.id}/${cpo.id}`, { active: true });
  world.isUp = true;
  return { world, hub };
}

/** Far longer than any wait of the hub's own: then something is wrong, and a kill that waits for requests ends. */
const unansweredMs = 120_000;

async function call(ledger: Ledger, partner: PlainPartner, method: string, path: string, body?: string): Promise<Told> {
  const what = `life ${ledger.life}: ${method} ${path} was not answered`;
  const unanswered = setTimeout(() => ledger.strange.push(what), unansweredMs);
  try {
    const { status, json } = await partner.call(method, path, body);
    const isDone = status < 300 && json.status_code === 1000;
    return { ending: isDone ? 'acknowledged' : 'refused', answer: `${status}/${json.status_code}` };
  } catch (error) {
    if (!(error instanceof Unanswered)) throw error;
    return { ending: 'unknown', answer: error.message };
  } finally {
    clearTimeout(unanswered);
  }
}
