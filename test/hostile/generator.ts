/**
 * The `n`-th hostile input of a seed: a valid request to one of the hub's doors, bent in one to three ways. The same seed and
 * number give the same input, whatever ran before.
 */
import { type Random, seeded } from '../faults/random.ts';
import { bendBytes, bendFields, loadedNames } from './bent-bodies.ts';
import { bendFrame, framed } from './bent-frames.ts';
import { bendHead, type Draft } from './bent-heads.ts';
import { type Actor, allSamples, type Sample } from './doors.ts';
import type { Wire } from './wire.ts';

export interface Input {
  readonly n: number;
  /** Door and what was bent, for people. */
  readonly title: string;
  readonly door: string;
  /** Ways in which it was bent. */
  readonly ways: readonly string[];
  readonly target: string;
  /** As it was sent; null when it was bent, so that what is recorded under another id may go back to this input. */
  readonly correlationId: string | null;
  readonly wire: Wire;
  /** Whether all its bytes were sent in a form that has an answer. */
  readonly isWhole: boolean;
}

export interface Actors {
  /** The value of an Authorization header; null for nobody. */
  authorization(actor: Actor): string | null;
  /** What stands in for the leaver's URL and token in bodies. */
  filled(body: object): object;
}

const doors = Object.entries(allSamples);

export function inputOf(seed: number, n: number, actors: Actors): Input {
  const chance = chanceOf(seed, n);
  const [door, sample] = chance.pick(doors);
  const correlationId = `hostile-${seed}-${n}`;
  const [method = ''] = door.split(' ');
  const draft = draftOf(method, sample, n, correlationId, actors);
  const bent: string[] = [];
  for (let left = chance.pick([1, 1, 1, 2, 3]); left > 0; left--) bent.push(bend(chance, sample, draft, n, actors));
  const isFramedBadly = chance.happens(0.18);
  const { name, wire } = isFramedBadly ? bendFrame(chance, draft) : { name: '', wire: framed(draft) };
  // Noise may have made another path or id of it.
  const isNoisy = name === 'noise inside';
  const ways = [...bent, name].filter(Boolean);
  return {
    ...{ n, door, ways, wire, target: isNoisy ? '' : draft.target },
    correlationId: isNoisy ? null : sentId(draft, correlationId),
    title: `${door}: ${ways.join(', ')}`,
    isWhole: !isFramedBadly,
  };
}

/** Of the first inputs of a seed those that are the first at their door or the first to be bent in one of their ways. */
export function firstOfEach(seed: number, among: number): number[] {
  const nobody: Actors = { authorization: () => null, filled: (body) => body };
  const met = new Set<string>();
  return Array.from({ length: among }, (_, n) => n).filter((n) => {
    const { door, ways } = inputOf(seed, n, nobody);
    const fresh = [door, ...ways].filter((one) => !met.has(one));
    for (const one of fresh) met.add(one);
    return fresh.length > 0;
  });
}

function draftOf(method: string, { as, path, body }: Sample, n: number, correlationId: string, actors: Actors): Draft {
  const authorization = actors.authorization(as);
  const headers: Draft['headers'] = [
    ['Host', 'hub.example'],
    ['Connection', 'close'],
    ['X-Correlation-ID', correlationId],
  ];
  if (authorization !== null) headers.push(['Authorization', authorization]);
  const text = body && JSON.stringify(actors.filled(body(n)));
  if (text !== undefined) headers.push(['Content-Type', 'application/json']);
  return { method, target: path, headers, body: text === undefined ? null : Buffer.from(text), version: 'HTTP/1.1' };
}

/** The id, if it is the only one of a draft. */
function sentId({ headers }: Draft, correlationId: string): string | null {
  const sent = headers.filter(([name]) => name.toLowerCase() === 'x-correlation-id');
  return sent.length === 1 && sent[0]?.[1] === correlationId ? correlationId : null;
}

function bend(chance: Random, { body }: Sample, draft: Draft, n: number, actors: Actors): string {
  if (body && chance.happens(0.5)) {
    const value = actors.filled(body(n));
    const text = bendFields(chance, value);
    const isText = chance.happens(0.7);
    draft.body = isText ? Buffer.from(text) : bendBytes(chance, chance.happens(0.5) ? text : JSON.stringify(value));
    return isText ? 'fields' : 'bytes';
  }
  if (!body && chance.happens(0.1)) {
    draft.body = bendBytes(chance, `{"${chance.pick(loadedNames)}":1}`);
    draft.headers.push(['Content-Type', 'application/json']);
    return 'a body';
  }
  return bendHead(chance, draft);
}

/** Each input has chances of its own, so that one can be had again without those before it. */
function chanceOf(seed: number, n: number): Random {
  return seeded(Math.imul(seed + 1, 0x85ebca6b) ^ Math.imul(n + 1, 0xc2b2ae35));
}
