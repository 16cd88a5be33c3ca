/**
 * The signed-in operator: a token of the admin API, kept for this browser session only, and the role that it has.
 *
 * SESSION-1  The token is in `sessionStorage` and in memory, never in an address, a cookie or `localStorage`.
 */
import { computed, signal } from '@preact/signals';

export type CallerRole = 'admin' | 'viewer';

const place = 'ocpi-hub.token';

/** Null: nobody is signed in. */
export const token = signal<string | null>(sessionStorage.getItem(place));
/** Null until the hub has answered. */
export const role = signal<CallerRole | null>(null);
/** Why the last session ended, in a sentence. */
export const signedOutBecause = signal<string | null>(null);

/** Whether buttons that change something are shown; a viewer gets none. */
export const mayAct = computed(() => role.value === 'admin');

export function signIn(given: string, as: CallerRole): void {
  sessionStorage.setItem(place, given);
  role.value = as;
  token.value = given;
  signedOutBecause.value = null;
}

export function signOut(because: string | null = null): void {
  sessionStorage.removeItem(place);
  token.value = null;
  role.value = null;
  signedOutBecause.value = because;
}
