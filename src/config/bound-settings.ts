/** Settings of what partners may use, and of how long things are kept: part of the table of all settings. */
import { flag, number, oneOf, perMinute, setting, whole } from './setting-kinds.ts';

export const bounds = {
  HUB_SILENT_AFTER_H: setting(number('h', 0, 8_760), '12', {
    meaning: 'time without a push after which a connected CPO counts as silent; 0 = never',
    consequence: 'operators see a silent CPO under attention; too short, and quiet nights look like failures',
  }),
  HUB_RATE_LISTS_PER_MIN: setting(perMinute, '200', {
    meaning: 'list requests per party and list endpoint',
    source: 'requirement',
    consequence: 'beyond it the hub answers 429',
  }),
  HUB_RATE_COMMANDS_PER_MIN: setting(perMinute, '50', {
    meaning: 'commands per party',
    source: 'requirement',
    consequence: 'beyond it the hub answers 429',
  }),
  HUB_RATE_EXCHANGES_PER_MIN: setting(perMinute, '10', {
    meaning: 'POST and PUT of credentials per partner',
    consequence: 'beyond it the hub answers 429',
  }),
  HUB_RATE_OTHER_PER_MIN: setting(perMinute, '6000', {
    meaning: 'all other requests per party; each 64 KiB that one sends, reads or changes counts as one more',
    consequence: 'beyond it the hub answers 429',
  }),
  HUB_QUOTA_MB_PER_DAY: setting(whole('MB', 0, 1_000_000_000), '10000', {
    meaning:
      'what a party may have stored within a day (UTC): its pushes and the objects that they change; 0 = no limit',
    consequence: 'beyond it the pushes of that party get 429 until the day ends; at 80 % the hub warns',
  }),
  HUB_OBJECTS_PER_PARTY: setting(whole('objects', 0, 1_000_000_000), null, {
    meaning: 'objects that a party may have stored; 0 = no limit',
    consequence:
      'beyond it new objects of that party get 429; at 80 % the hub warns; without a limit one party can fill the heap',
    otherwise: 'a quarter of the heap limit, at 256 bytes an object',
  }),
  HUB_PAGE_DEFAULT: setting(whole('objects', 1, 100_000), '100', {
    meaning: 'page size of lists without limit; never above the maximum',
    consequence: 'a client without limit gets pages of this size',
  }),
  HUB_PAGE_MAX: setting(whole('objects', 1, 100_000), '1000', {
    meaning: 'largest page of a list',
    consequence: 'a page is held in memory as a whole',
  }),
  HUB_CONFIRM_HOST_CHANGE: setting(flag, 'false', {
    meaning: 'true = a PUT of credentials that changes the host of url waits for an operator',
    consequence: 'with false, a leaked hub token lets its holder take a partner over until an operator notices',
  }),
  HUB_INITIAL_TOKEN_DAYS: setting(number('days', 0, 36_500), '14', {
    meaning: 'how long an initial token can be used to register; 0 = for ever',
    consequence: 'longer, a token that leaks from a mail can be used for longer; shorter, partners need a second one',
  }),
  HUB_EVENTS_KEEP_DAYS: setting(number('days', 0, 36_500), '90', {
    meaning: 'how long the event log is kept, and with it how each delivery went; 0 = for ever',
    consequence: 'what is older can be neither traced nor replayed; with 0 the store grows without bound',
  }),
  HUB_VERIFY_AT_START: setting(oneOf('all', 'recent'), 'recent', {
    meaning:
      'what a start of the embedded store verifies before it serves: the end of the log and the rest later, or all',
    consequence: 'with all a large store is ready later, by some 6 s of CPU for each million events',
  }),
  HUB_AUDIT_KEEP_DAYS: setting(number('days', 0, 36_500), '365', {
    meaning: 'how long entries of the audit log are kept; 0 = for ever',
    consequence: 'older acts of operators are no longer known',
  }),
  HUB_SESSIONS_KEEP_DAYS: setting(number('days', 0, 36_500), '0', {
    meaning: 'how long a session is kept after its last update; 0 = for ever',
    consequence:
      'partners can no longer read an older session, and its CDR finds no session; with 0 the store grows without bound',
  }),
  HUB_CDRS_KEEP_DAYS: setting(number('days', 0, 36_500), '0', {
    meaning: 'how long a CDR is kept after its last update; 0 = for ever',
    consequence: 'partners can no longer read an older CDR, and one that is pushed again is forwarded again',
  }),
  HUB_TOKENS_KEEP_DAYS: setting(number('days', 0, 36_500), '0', {
    meaning: 'how long a token is kept after its last update, valid or not; 0 = for ever',
    consequence: 'an eMSP must update its tokens within that time, or CPOs can no longer read them',
  }),
};
