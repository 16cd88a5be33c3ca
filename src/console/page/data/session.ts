/**
 * Who is signed in, an operator in the console or a partner in its portal: a token, kept for this browser session only, and whose it is.
 *
 * SESSION-1  The token is in `sessionStorage` and in memory, never in an address, a cookie or `localStorage`.
 */
import { computed, signal } from '@preact/signals';
import type { CallerRole } from '../../../api/audit.ts';

/** Whether this is the page of the portal; else it is the console's. */
export const isPortal = location.pathname.startsWith('/portal/');
/** Where the calls of the page go. */
export const api = isPortal ? '/portal/v1' : '/admin/v1';

/** The answer of `/caller`. */
export interface Caller {
  readonly name: string;
  readonly role: CallerRole;
}

const place = isPortal ? 'ocpi-hub.portal-token' : 'ocpi-hub.token';

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
/** Whether the endpoints of a partner may be checked. */
export const mayCheck = isOneOf('partner', 'operator', 'admin');
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
