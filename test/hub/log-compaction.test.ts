/** Whatever happens in the life of a partner, what a trim keeps of its events folds to the same partner, and is bounded. */
import { isDeepStrictEqual } from 'node:util';
import { defaultSettings } from '../../src/domain/partner-settings.ts';
import { applyToPartner, type Endpoint, type Partner, type PartnerEvent } from '../../src/domain/party.ts';
import type { Context } from '../../src/hub/kernel/context.ts';
import { keepingOf } from '../../src/hub/maintain/log-compaction.ts';
import type { StoredEvent } from '../../storage/contract.ts';
import { fc } from '../support/property.ts';
import { partOf } from '../support/share.ts';
import { t } from '../support/tap.ts';

const roles = [{ role: 'CPO', country_code: 'NL', party_id: 'CPO' }] as const;
const context = { directory: { partner: () => undefined } } as unknown as Context;
/** Events that one piece of a trim meets. */
const piece = 100;

/** The n-th event of a life; null where the partner cannot have it then. */
type Act = (partner: Partner, n: number) => PartnerEvent | null;

const exchange = (n: number, hubTokenDigest: string) => {
  const url = `https://${n % 2 ? 'a' : 'b'}.example/${n}`;
  const discovered: Endpoint[] = [{ identifier: 'cdrs', role: 'SENDER', url, source: 'discovered' }];
  const tokenEncoding = n % 3 ? 'base64' : 'plain';
  return { url, roles, discovered, hubTokenDigest, partnerToken: `sealed ${n}`, tokenEncoding } as const;
};
const rotatedBy = (formerDigest: string | undefined | null, n: number): PartnerEvent | null =>
  formerDigest
    ? { type: 'partner.rotated', data: { ...exchange(n, `hub ${n}`), formerDigest, formerUntil: `until ${n}` } }
    : null;
const ofHost = (type: 'partner.hostChangeAsked' | 'partner.hostChanged' | 'partner.hostConfirmed'): Act => {
  return (_, n) => ({ type, data: { from: 'a:443', to: `${n % 2 ? 'b' : 'c'}:443` } });
};

const rotate: Act = ({ hubTokenDigest }, n) => rotatedBy(hubTokenDigest, n);
const confirm: Act = ({ formerToken }) => (formerToken ? { type: 'partner.tokenConfirmed', data: {} } : null);
const issue: Act = (_, n) => ({ type: 'partner.initialTokenIssued', data: { initialTokenDigest: `initial ${n}` } });
const ask = ofHost('partner.hostChangeAsked');
const move = ofHost('partner.hostChanged');
/** Those that a partner repeats come often. */
const acts: readonly Act[] = [
  ...[rotate, rotate, rotate, rotate, rotate, rotate, rotate, rotate, rotate, rotate, rotate, rotate],
  ...[confirm, confirm, confirm, confirm, confirm, confirm, confirm, confirm, confirm, confirm, confirm, confirm],
  ...[issue, issue, issue, issue, issue, issue, issue, issue],
  ...[ask, ask, ask, ask, move, move, move, move],
  // Its answer was lost, and it asks again with the token that it has.
  ({ formerToken }, n) => rotatedBy(formerToken?.digest, n),
  ofHost('partner.hostConfirmed'),
  ({ initialTokenDigest: initial }, n) =>
    initial === null ? null : { type: 'partner.registered', data: exchange(n, n % 2 ? initial : `hub ${n}`) },
  ({ status }) => (status === 'CONNECTED' ? { type: 'partner.offline', data: { reason: 'silent' } } : null),
  ({ status }) => (status === 'OFFLINE' ? { type: 'partner.online', data: { reason: 'back' } } : null),
  (_, n) => (n % 3 ? null : { type: 'partner.suspended', data: { reason: 'left' } }),
  (_, n) => (n % 3 ? null : { type: 'partner.hubTokenIssued', data: { hubTokenDigest: `hub ${n}` } }),
  () => ({ type: 'partner.changed', data: { settings: { token_encoding: 'plain', token_encoding_auto: false } } }),
  () => ({ type: 'partner.changed', data: { settings: { token_encoding_auto: true } } }),
  (_, n) => ({
    type: 'partner.endpointsSet',
    data: { endpoints: [{ identifier: 'cdrs', role: 'SENDER', url: `https://set/${n}`, source: 'operator' }] },
  }),
];

const stored = ({ type, data }: PartnerEvent, seq: number): StoredEvent => ({
  seq,
  stream: 'partner:NL-CPO',
  type,
  at: `t${seq}`,
  party: null,
  correlationId: null,
  to: [],
  data,
  body: null,
});

const added: PartnerEvent = {
  type: 'partner.added',
  data: { id: 'NL-CPO', roles, settings: defaultSettings, initialTokenDigest: 'initial 0' },
};
const first: PartnerEvent = { type: 'partner.registered', data: exchange(1, 'hub 1') };

const folded = (events: readonly StoredEvent[]): Partner | null =>
  events.reduce<Partner | null>(
    (partner, { type, data, at }) => applyToPartner(partner, { type, data } as PartnerEvent, at),
    null,
  );

/** The events of a partner that does all of this, as far as it can. */
function lifeOf(chosen: readonly Act[]): StoredEvent[] {
  const events = [stored(added, 1), stored(first, 2)];
  let partner = folded(events);
  for (const act of chosen) {
    const seq = events.length + 1;
    const event = partner && act(partner, seq);
    if (!event) continue;
    events.push(stored(event, seq));
    partner = applyToPartner(partner, event, `t${seq}`);
  }
  return events;
}

t.test('the kept events of a partner fold to the same partner [LOG-COMPACTION-1, LOG-COMPACTION-4]', async (t) => {
  const kinds = ['partner.rotated', 'partner.initialTokenIssued', 'partner.tokenConfirmed', 'partner.host'] as const;
  const countsOf = (events: readonly StoredEvent[]) =>
    kinds.map((prefix) => events.filter(({ type }) => type.startsWith(prefix)).length);
  const most = kinds.map(() => 0);
  const lives = fc.array(fc.nat(acts.length - 1), { minLength: 800, maxLength: 1_400, size: 'max' });
  const property = fc.asyncProperty(lives, async (chosen) => {
    const events = lifeOf(chosen.map((act) => acts[act] as Act));
    let kept: readonly StoredEvent[] = [];
    for (let from = 0; from < events.length; from += piece) {
      ({ keeps: kept } = await keepingOf([...kept, ...events.slice(from, from + piece)], context));
      const [is, was] = [folded(kept), folded(events.slice(0, from + piece))];
      if (!isDeepStrictEqual(is, was)) throw new Error(`${JSON.stringify(is)} is not ${JSON.stringify(was)}`);
    }
    for (const [kind, count] of countsOf(events).entries()) most[kind] = Math.max(most[kind] ?? 0, count);
    const confirmations = kept.filter(({ type }) => type === 'partner.hostConfirmed').length;
    const bounds = [103, 103, 105, 100 + 3 * confirmations];
    const isBounded = countsOf(kept).every((count, kind) => count <= (bounds[kind] ?? 0));
    if (!isBounded) throw new Error(`${countsOf(kept)} of ${countsOf(events)}, with ${confirmations} confirmations`);
  });
  await fc.assert(property, { numRuns: Math.max(20, partOf(500)), endOnFailure: true });
  t.ok(
    most.every((count) => count > 103),
    `of each kind up to ${most}`,
  );
});

t.test(
  'a trim removes part of the events that an earlier version kept, and the rest folds to the same partner',
  async (t) => {
    const chosen = Array.from({ length: 12_000 }, (_, n) => (n % 2 ? confirm : rotate));
    let kept: readonly StoredEvent[] = lifeOf(chosen);
    const before = folded(kept);
    const counts: number[] = [];
    for (let trims = 0; trims < 3; trims++) {
      ({ keeps: kept } = await keepingOf(kept, context));
      counts.push(kept.filter(({ type }) => type === 'partner.rotated').length);
      t.strictSame(folded(kept), before);
    }
    t.strictSame(counts, [1_000, 103, 103]);
  },
);

t.test('events that a confirmation of a host needs are kept with it', async (t) => {
  const to = { from: 'a:443', to: 'b:443' };
  const made: Act = () => ({ type: 'partner.hostChanged', data: to });
  const confirmed: Act = () => ({ type: 'partner.hostConfirmed', data: to });
  // Were the change that uses up the first confirmation forgotten, each one after it would be taken for confirmed.
  const events = lifeOf([confirmed, made, ...Array.from({ length: 60 }, () => [made, confirmed]).flat()]);
  const { keeps } = await keepingOf(events, context);
  t.strictSame(folded(keeps), folded(events));
});
