/** Formats numbers and instants for operators. */

const whole = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 1 });
const compact = new Intl.NumberFormat('en-GB', { notation: 'compact', maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
/** A day of this year: `5 Nov`. */
export const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });

export const count = (value: number): string => whole.format(value);

/** For a narrow column: exact below 100,000, then `123.5k`. */
export const brief = (value: number): string => (value < 100_000 ? whole : compact).format(value);

/** `1 delivery`, `2 deliveries`. */
export const many = (number: number, one: string, more = `${one}s`): string =>
  `${count(number)} ${number === 1 ? one : more}`;

/** A rate per second, with one decimal below 10. */
export const perSecond = (value: number): string => (value < 10 ? tenth : whole).format(value);

const spans = [
  { unit: 'd', seconds: 86_400 },
  { unit: 'h', seconds: 3_600 },
  { unit: 'min', seconds: 60 },
  { unit: 's', seconds: 1 },
] as const;

/** A duration in seconds: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`. */
export function span(seconds: number): string {
  if (seconds < 10) return `${tenth.format(Math.max(0, seconds))} s`;
  const at = spans.findIndex((one) => seconds >= one.seconds);
  const major = spans[at] ?? spans[3];
  const minor = spans[at + 1];
  const first = Math.floor(seconds / major.seconds);
  const rest = minor ? Math.floor((seconds - first * major.seconds) / minor.seconds) : 0;
  return minor && rest > 0 ? `${first} ${major.unit} ${rest} ${minor.unit}` : `${first} ${major.unit}`;
}

/** A duration in milliseconds. */
export const spanMs = (ms: number): string => (ms < 1000 ? `${whole.format(ms)} ms` : span(ms / 1000));

/** A share, to two decimals: `99.95 %`. */
export const percent = (share: number): string => `${Number((share * 100).toFixed(2))} %`;

/** A dash for what is not known. */
export const orDash = (value: number | null, shown: (value: number) => string): string =>
  value === null ? '–' : shown(value);

/** An instant in local time; with the day unless it is today. */
export function at(instant: string): string {
  const date = new Date(instant);
  const time = clock.format(date);
  return date.toDateString() === new Date().toDateString() ? time : `${day.format(date)}, ${time}`;
}
