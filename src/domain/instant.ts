/**
 * Formats and parses instants of events and answers: RFC 3339, UTC, milliseconds. Every push formats several of them,
 * so the calendar part is cached and computed only once a second.
 */
const endings = Array.from({ length: 1000 }, (_, ms) => `${String(ms).padStart(3, '0')}Z`);

let second = Number.NaN;
let beginning = '';

/** The text of an instant; throws a RangeError for an invalid one, as `Date` does. */
export function instantText(epochMs: number): string {
  const whole = Math.trunc(epochMs);
  const its = Math.floor(whole / 1000);
  if (its !== second) {
    beginning = new Date(its * 1000).toISOString().slice(0, -4);
    second = its;
  }
  return beginning + endings[whole - its * 1000];
}

/**
 * The second of an instant, as lists are asked for it: an object that changed later in it has no later `last_updated` where its owner
 * keeps no fractions, and some servers read none.
 */
export const secondText = (epochMs: number): string => `${instantText(epochMs).slice(0, 19)}Z`;

let read: readonly [text: string, epochMs: number] = ['', Number.NaN];

/**
 * Epoch ms of the text of an instant, NaN for any other text. The last result is cached: a fan-out parses the same text
 * once per receiver.
 */
export function instantOf(text: string): number {
  if (read[0] !== text) read = [text, Date.parse(text)];
  return read[1];
}
