/**
 * A partner without a socket, for simulated time, as a small state model: what it holds, how it answers, what it makes of commands. It
 * knows nothing of the hub. How its network treats it at the moment is its weather.
 */
import type { CommandName } from '../../src/domain/events.ts';
import type { Endpoint } from '../../src/domain/party.ts';
import { type Company, endpointsOf } from './cast.ts';
import type { Random } from './random.ts';
import type { Json } from './reference.ts';

/** What becomes of a call. Those that end in `Lost` took effect, and nobody hears of it. */
export type Fate =
  | 'ok'
  | 'slow'
  | 'timeout'
  | 'timeoutLost'
  | 'refused'
  | 'resetLost'
  | 'http500'
  | 'http500Lost'
  | 'http503'
  | 'http429'
  | 'http404'
  | 'http401'
  | 'http400'
  | 'notJson'
  | 'ocpi2001'
  | 'ocpi3000';

type Weather = Readonly<Partial<Record<Fate, number>>>;

export const fair: Weather = { ok: 1 };
const usual: Weather = {
  ...{ ok: 88, slow: 3, timeout: 0.7, timeoutLost: 1, refused: 2, resetLost: 1.5, http500: 1.5, http500Lost: 0.7 },
  ...{
    http503: 0.8,
    http429: 0.8,
    http404: 0.3,
    http401: 0.2,
    http400: 0.3,
    notJson: 0.3,
    ocpi2001: 0.3,
    ocpi3000: 0.5,
  },
};
const stormy: Weather = {
  ...{ ok: 45, slow: 6, timeout: 3, timeoutLost: 5, refused: 12, resetLost: 8, http500: 8, http500Lost: 4 },
  ...{ http503: 3, http429: 3, http404: 0.5, http401: 0.3, http400: 0.5, notJson: 0.4, ocpi2001: 0.5, ocpi3000: 2 },
};
const down: Weather = { refused: 1 };
const hanging: Weather = { timeout: 2, timeoutLost: 1 };
export const weathers = { usual, stormy, down, hanging };

export interface ReceivedCommand {
  readonly name: CommandName;
  readonly responseUrl: string;
  readonly answer: string;
}

export class SimulatedPartner {
  readonly company: Company;
  weather: Weather = fair;
  /** Its tokens for the hub, newest last: a new one at each exchange, and the one before is still taken. */
  readonly tokens: string[] = [];
  /** How often its version details leave out one of its endpoints. */
  forgetting = 0.1;
  /** Left out when it told them last. */
  lacking: Endpoint | null = null;
  /** Whether it calls back at all after it took a command. */
  callsBack = true;
  /** What the hub gave it last; null before the first exchange and after it unregistered. */
  hubToken: string | null = null;
  initialToken: string | null = null;
  /** Objects of its own, as it serves them in lists: module → id → text. */
  readonly own = new Map<string, Map<string, string>>();
  /** What it was sent: `{party} {stream}` → object; null when it was deleted. */
  readonly copies = new Map<string, Json | null>();
  readonly commands = new Map<string, ReceivedCommand>();
  readonly #random: Random;

  constructor(company: Company, random: Random) {
    this.company = company;
    this.#random = random;
  }

  accepts(token: string): boolean {
    return this.tokens.slice(-3).includes(token);
  }

  /** What its version details say now. */
  endpoints(): Endpoint[] {
    const all = endpointsOf(this.company);
    this.lacking = this.#random.chance(this.forgetting) ? this.#random.pick(all) : null;
    return all.filter((endpoint) => endpoint !== this.lacking);
  }

  /** Modules, and objects as `{module}/{country}/{party}/{id}`, of which it answers every delivery so, while all else goes well. */
  readonly broken = new Map<string, Fate>();

  fate(): Fate {
    return this.#random.weighted(this.weather as Record<Fate, number>);
  }

  keep(module: string, id: string, text: string | null): void {
    const objects = this.own.get(module) ?? new Map<string, string>();
    this.own.set(module, objects);
    if (text === null) objects.delete(id);
    else objects.set(id, text);
  }

  /** Takes a command. The same one twice is for others to judge: it answers the same. */
  command(id: string, name: CommandName, responseUrl: string): string {
    const known = this.commands.get(id);
    if (known) return known.answer;
    const answer = this.#random.weighted({ ACCEPTED: 80, REJECTED: 12, NOT_SUPPORTED: 4, UNKNOWN_SESSION: 4 });
    this.commands.set(id, { name, responseUrl, answer });
    return answer;
  }

  authorize(): Json {
    return { allowed: this.#random.weighted({ ALLOWED: 80, BLOCKED: 10, NOT_ALLOWED: 5, EXPIRED: 5 }) };
  }
}
