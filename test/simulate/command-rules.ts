/**
 * Rules of commands and their results, checked at every call and commit.
 *
 * TEST-COMMAND-RULES-1  A command is recorded before it is forwarded, and forwarded once at most, ever.
 * TEST-COMMAND-RULES-2  What the eMSP is told is what the CPO said, or that it could not be asked.
 * TEST-COMMAND-RULES-3  A result that reaches the eMSP came from the CPO by a callback, and once per callback at most.
 * TEST-COMMAND-RULES-4  A command falls silent after its window only. No command stays open.
 */
import type { Outcome } from '../../src/domain/errors.ts';
import { demand, type Fact, type Facts } from './facts.ts';

const ends: ReadonlySet<string> = new Set(['rejected', 'relayed', 'silent']);
/** Facts after which a command is over. */
const endings: ReadonlySet<string> = new Set(
  ['failed', 'relayed', 'relayFailed', 'silent'].map((name) => `command.${name}`),
);

interface CommandStory {
  readonly id: string;
  readonly requested: Fact;
  forwards: number;
  /** How the forward ended, as far as the hub heard. */
  met: Outcome | null;
  /** What the CPO answered when it took the command. */
  answer: string | null;
  answered: Fact | null;
  /** When it answered, at the earliest: the record may have waited for the disk, beside a step of the clock. Infinite until then. */
  answeredFrom: number;
  /** Bodies of callbacks that the CPO made. */
  readonly called: string[];
  readonly relayed: string[];
}

export class CommandRules {
  readonly #facts: Facts;
  readonly stories = new Map<string, CommandStory>();
  /** By response url, which is another for each command. */
  readonly #urls = new Map<string, CommandStory>();

  constructor(facts: Facts) {
    this.#facts = facts;
  }

  committed(fact: Fact): void {
    if (!fact.type.startsWith('command.')) return;
    const id = fact.stream.slice('command:'.length);
    if (fact.type === 'command.requested') {
      const story: CommandStory = {
        ...{ id, requested: fact, forwards: 0, met: null, answer: null, answered: null },
        ...{ answeredFrom: Number.POSITIVE_INFINITY, called: [], relayed: [] },
      };
      this.stories.set(id, story);
      this.#urls.set(String(fact.data.responseUrl), story);
      return;
    }
    const story = this.#story(id);
    if (fact.type === 'command.answered') {
      story.answered = fact;
      story.answeredFrom = this.#facts.around.earliestOf(fact.stamp);
      demand(
        fact.data.result === story.answer,
        'no answer is invented',
        () => `${id}: ${fact.data.result}, not ${story.answer}`,
      );
    } else if (fact.type === 'command.resultReceived') {
      demand(story.called.includes(fact.body ?? ''), 'no result is invented', () => `${id}: ${fact.body}`);
    } else if (fact.type === 'command.silent') {
      this.#facts.around.hit('a command fell silent');
      const windowMs = Number(story.answered?.data.timeoutS) * 1000;
      const isLate = fact.at >= story.answeredFrom + windowMs;
      demand(isLate, 'a command falls silent after its window', () => id);
    }
  }

  /** The hub is about to forward it. */
  forwards(id: string): void {
    const story = this.stories.get(id);
    demand(story !== undefined, 'a command is recorded before it is forwarded', () => id);
    if (!story) return;
    story.forwards++;
    demand(story.forwards === 1, 'a command is forwarded once at most', () => id);
  }

  took(id: string, answer: string): void {
    this.#story(id).answer = answer;
  }

  ended(id: string, outcome: Outcome): void {
    this.#story(id).met = outcome;
  }

  called(id: string, body: string): void {
    this.#story(id).called.push(body);
  }

  /** The hub is about to tell the eMSP a result. */
  relays(responseUrl: string, body: string): void {
    const story = this.#asked(responseUrl);
    const { id } = story;
    story.relayed.push(body);
    const times = (bodies: readonly string[]) => bodies.filter((one) => one === body).length;
    demand(times(story.relayed) <= times(story.called), 'no result is invented', () => `${id}: ${body}`);
  }

  /** What a callback that was acknowledged promised. */
  acknowledged(id: string, body: string): void {
    demand(this.#story(id).relayed.includes(body), 'an acknowledged result was relayed', () => `${id}: ${body}`);
  }

  /** The eMSP was answered with a result. */
  answeredWith(responseUrl: string, result: string): void {
    const story = this.#asked(responseUrl);
    const isTold = story.met?.class === 'delivered' && story.answer === result;
    demand(isTold, 'what the CPO said is what the eMSP is told', () => `${story.id}: ${result}`);
  }

  /** Recorded, and the CPO was not called. */
  isUnsent(responseUrl: string): boolean {
    return this.#urls.get(responseUrl)?.forwards === 0;
  }

  /** The eMSP was refused; when the command was recorded, then for what its forward met. [D44] */
  refusedWith(responseUrl: string, code: string): void {
    const story = this.#urls.get(responseUrl);
    if (!story) return;
    const { met, id } = story;
    const fits = met === null ? code === 'commandUnavailable' : codeOf(met) === code;
    demand(
      fits,
      'a failed forward is named for what it met',
      () => `${id}: ${code} after ${met?.class} ${met?.httpStatus}`,
    );
  }

  /** `horizon`: up to where the log was trimmed, and with it the rows of what had ended. */
  final(states: ReadonlyMap<string, string>, horizon: number): void {
    const lastOf = new Map<string, number>();
    const ended = new Set<string>();
    for (const { type, stream, seq, data } of this.#facts.log) {
      if (!type.startsWith('command.')) continue;
      lastOf.set(stream, seq);
      if (endings.has(type) || (type === 'command.answered' && data.result !== 'ACCEPTED')) ended.add(stream);
    }
    for (const { id } of this.stories.values()) {
      const stream = `command:${id}`;
      const hasGone = !states.has(id) && ended.has(stream) && (lastOf.get(stream) ?? 0) <= horizon;
      const state = states.get(id) ?? 'no row';
      demand(hasGone || ends.has(state), 'no command stays open', () => `${id} is ${state}`);
    }
  }

  #asked(responseUrl: string): CommandStory {
    const story = this.#urls.get(responseUrl);
    demand(story !== undefined, 'a result of a command that was recorded', () => responseUrl);
    return story as CommandStory;
  }

  #story(id: string): CommandStory {
    const story = this.stories.get(id);
    demand(story !== undefined, 'a fact of a command that was requested', () => id);
    return story as CommandStory;
  }
}

function codeOf({ class: met, httpStatus, ocpiStatus }: Outcome): string {
  if (met === 'delivered') return 'commandFailed';
  if (ocpiStatus === 2004) return 'commandNotFound';
  if (met === 'timeout') return 'commandTimeout';
  if (httpStatus === 401 || httpStatus === 403) return 'commandUnauthorized';
  if (httpStatus === 404 || httpStatus === 410) return 'commandNotFound';
  if (httpStatus !== null && httpStatus >= 400 && httpStatus < 500) return 'commandRejected';
  if (met === 'client_error') return 'commandRejected';
  if (met === 'invalid_response' && (httpStatus ?? 0) < 300) return 'commandFailed';
  return 'commandUnavailable';
}
