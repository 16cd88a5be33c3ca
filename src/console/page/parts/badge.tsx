/** A state as one word, with a colour and a shape that say the same. */

export type Tone = 'good' | 'wait' | 'bad' | 'off' | 'info';

const tones: Readonly<Record<string, Tone>> = {
  CONNECTED: 'good',
  REGISTERED: 'info',
  OFFLINE: 'bad',
  SUSPENDED: 'off',
  PLANNED: 'info',
  closed: 'good',
  open: 'bad',
  halfOpen: 'wait',
  DELIVERED: 'good',
  PENDING: 'wait',
  DEAD: 'bad',
  DISCARDED: 'off',
  OPEN: 'bad',
  GRACE: 'wait',
  RESOLVED: 'good',
  RUNNING: 'wait',
  DONE: 'good',
  FAILED: 'bad',
  CANCELED: 'off',
  INTERRUPTED: 'bad',
  forwarding: 'wait',
  awaiting: 'wait',
  relaying: 'wait',
  relayed: 'good',
  relayFailed: 'bad',
  rejected: 'bad',
  silent: 'bad',
};

/** States that are shown by another name. */
const names: Readonly<Record<string, string>> = {
  halfOpen: 'half-open (testing)',
  GRACE: 'grace period',
  forwarding: 'sending',
  awaiting: 'waiting for result',
  relaying: 'returning result',
  relayed: 'completed',
  relayFailed: 'result not returned',
  silent: 'no result',
};

export const shownState = (state: string): string => names[state] ?? state;

const marks: Readonly<Record<Tone, string>> = { good: '●', wait: '◐', bad: '▲', off: '○', info: '◇' };

export function Badge({ state, tone = tones[state] ?? 'info' }: { state: string; tone?: Tone }) {
  return (
    <span class={`badge ${tone}`}>
      <span aria-hidden="true">{marks[tone]}</span> {shownState(state)}
    </span>
  );
}
