/**
 * An instant as it stands in events and answers: RFC 3339, UTC, milliseconds. It is asked for several times in every push, and the calendar
 * has to be asked only once a second.
 */
const endings = Array.from({ length: 1000 }, (_, ms) => `${String(ms).padStart(3, '0')}Z`);

let second = Number.NaN;
let beginning = '';

/** A RangeError for what is no instant, as `Date` has it. */
export function instantText(epochMs: number): string {
  const whole = Math.trunc(epochMs);
  const its = Math.floor(whole / 1000);
  if (its !== second) {
    beginning = new Date(its * 1000).toISOString().slice(0, -4);
    second = its;
  }
  return beginning + endings[whole - its * 1000];
}

let read: readonly [text: string, epochMs: number] = ['', Number.NaN];

/** Epoch ms of the text of an instant, NaN of any other. What one event owes to many bears the same one again and again. */
export function instantOf(text: string): number {
  if (read[0] !== text) read = [text, Date.parse(text)];
  return read[1];
}
