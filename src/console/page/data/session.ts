/**
 * The signed-in operator: a token of the admin API, kept for this browser session only, and whose it is.
 *
 * SESSION-1  The token is in `sessionStorage` and in memory, never in an address, a cookie or `localStorage`.
 */
import { computed, signal } from '@preact/signals';

export type CallerRole = 'viewer' | 'support' | 'operator' | 'admin';

/** The answer of `/caller`. */
export interface Caller {
  readonly name: string;
  readonly role: CallerRole;
}

const place = 'ocpi-hub.token';

/** Null: nobody is signed in. */
export const token = signal<string | null>(sessionStorage.getItem(place));
/** Null until the hub has answered. */
export const caller = signal<Caller | null>(null);
/** Why the last session ended, in a sentence. */
export const signedOutBecause = signal<string | null>(null);

const isOneOf = (...roles: readonly CallerRole[]) =>
  computed(() => caller.value !== null && roles.includes(caller.value.role));

/** Whether buttons that repair something are shown; a viewer gets none. */
export const mayAct = isOneOf('support', 'operator', 'admin');
/** Whether buttons that change partners and routes are shown. */
export const mayOperate = isOneOf('operator', 'admin');
/** Whether partners may be added, tokens issued and the audit log read. */
export const mayAdminister = isOneOf('admin');

export function signIn(given: string, as: Caller): void {
  sessionStorage.setItem(place, given);
  caller.value = as;
  token.value = given;
  signedOutBecause.value = null;
}

export function signOut(because: string | null = null): void {
  sessionStorage.removeItem(place);
  token.value = null;
  caller.value = null;
  signedOutBecause.value = because;
}
