/** Prints the exchanges of the simulated partners as lines for people: caller, callee, answer and duration. */
import { type Paint, paintFor } from '../kit/paint.ts';
import type { Partner } from './partner.ts';
import type { AdminCall } from './session-path.ts';
import type { Entry } from './transcript.ts';

export interface Out {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
}

/** Names the hub, or the node of it, that sent or received a request with these headers. */
export type HubOf = (headers: Readonly<Record<string, string>>) => string;

/** Width of a line without the two names and the path, in characters. */
const beside = 47;

export class Narrator {
  readonly paint: Paint;
  readonly #out: Out;
  #step = 0;

  /** Colours on a terminal only, and not when `NO_COLOR` is set. */
  constructor(out: Out, env: Readonly<Record<string, string | undefined>>) {
    this.#out = out;
    this.paint = paintFor(out, env);
  }

  get #columns(): number {
    return this.#out.columns ?? 120;
  }

  get #isNarrow(): boolean {
    return this.#columns < 100;
  }

  line(text = ''): void {
    this.#out.write(`${text}\n`);
  }

  /** Prints a step's title; the numbers go on from one path to the next. */
  step(name: string): void {
    this.#step++;
    this.line();
    this.line(`${this.paint('dim', String(this.#step).padStart(3))}  ${this.paint('bold', name)}`);
  }

  /** Prints a partner's exchanges until the returned function is called. */
  follow(partner: Partner, hubOf: HubOf = () => 'hub'): () => void {
    return partner.transcript.follow((entry) => this.#exchange(partner, entry, hubOf(entry.headers)));
  }

  operatorCall({ method, path, status, durationMs }: AdminCall, hub = 'hub'): void {
    this.#call({
      from: 'operator',
      to: hub,
      method,
      path,
      said: `${status ?? 'no answer'}`,
      good: status !== null && status < 300,
      durationMs,
    });
  }

  #exchange(partner: Partner, entry: Entry, hub: string): void {
    const role = partner.role === 'EMSP' ? 'eMSP' : partner.role;
    const name = this.#isNarrow ? role : `${role} ${partner.id}`;
    const [from, to] = entry.direction === 'sent' ? [name, hub] : [hub, name];
    const { said, good } = answerOf(entry);
    this.#call({ from, to, method: entry.method, path: entry.path, said, good, durationMs: entry.durationMs });
  }

  #call(call: {
    from: string;
    to: string;
    method: string;
    path: string;
    said: string;
    good: boolean;
    durationMs: number;
  }): void {
    const { from, to, method, path, said, good, durationMs } = call;
    const width = this.#isNarrow ? 8 : 11;
    const who = `${from.padEnd(width)} ${this.paint('dim', '→')} ${to.padEnd(width)}`;
    const room = Math.max(this.#columns - 2 * width - beside, 12);
    const what = `${method.padEnd(6)} ${shortened(path, room).padEnd(room)}`;
    const took = durationMs < 10 ? durationMs.toFixed(1) : durationMs.toFixed(0);
    this.line(
      `     ${who}  ${what}  ${this.paint(good ? 'green' : 'red', said.padEnd(19))} ${this.paint('dim', `${took.padStart(5)} ms`)}`,
    );
  }
}

/** `200 · 1000 ALLOWED`: HTTP status, OCPI status, and the result or the number of items. */
function answerOf(entry: Entry): { said: string; good: boolean } {
  if (entry.answer === null) return { said: entry.fault ?? 'no answer', good: false };
  const { status, body } = entry.answer;
  let code: number | undefined;
  let word = '';
  try {
    const { status_code, data } = JSON.parse(body) as {
      status_code?: number;
      data?: Record<string, unknown> | unknown[];
    };
    code = status_code;
    word = Array.isArray(data) ? `${data.length} items` : String(data?.allowed ?? data?.result ?? '');
  } catch {
    // The body is not an envelope: the HTTP status is all there is.
  }
  const said = [status, code].filter((part) => part !== undefined).join(' · ');
  return { said: word === '' ? said : `${said} ${word}`, good: status < 300 && code !== undefined && code < 2000 };
}

/** Cuts the middle out of a path: the start names the module, the end the object. */
function shortened(path: string, room: number): string {
  const plain = path.replace(/^\/ocpi\/2\.2\.1(?=\/)/, '');
  if (plain.length <= room) return plain;
  const end = Math.floor((room - 1) / 3);
  return `${plain.slice(0, room - 1 - end)}…${plain.slice(plain.length - end)}`;
}
