/**
 * The attackers of the campaign, in a process of their own: every attack of this folder at once, each over and over, until the parent says
 * that it is over. They run at the lowest priority, because elsewhere they have machines of their own.
 */
import { setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { locationBody, sessionBody } from '../support/bodies.ts';
import { callOnce, Unanswered } from '../support/caller.ts';
import { partnerFor } from '../support/hub-in-process.ts';
import { statusOf } from '../support/observed.ts';
import { admin, type PlainPartner } from '../support/plain-partner.ts';
import { sentTo } from '../support/tap-on.ts';
import {
  answers,
  askHanging,
  askUnknown,
  askUnread,
  exchangeAt,
  forms,
  guess,
  leadBack,
  longSession,
  malformedRequest,
  manyItems,
  onlyHealth,
  open,
  operatorsPaths,
  pages,
  patch,
  pushLargeLocation,
  pushLargeSession,
  relayTo,
  type Sent,
  sendUnended,
  silentUrl,
  strangers,
  tinyRequests,
  unendedServer,
  unknownToken,
  wrongItems,
} from './attacks.ts';
import { EndsOf } from './ends.ts';

export interface Begin {
  readonly hub: { readonly url: string; readonly adminToken: string };
  /** A pattern of names: which attacks; all of them when absent. */
  readonly attacks?: string;
}

/** How often each answer came, by attack. */
export type Tally = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** How long connections of an attack are held before it begins anew, ms. */
const heldMs = 10_000;

const all = new EndsOf();
const tally: Record<string, Record<string, number>> = {};
let isOver = false;
let over: () => void = () => {};
const untilOver = new Promise<void>((resolve) => {
  over = resolve;
});
const held = () => Promise.race([sleep(heldMs, undefined, { ref: false }), untilOver]);

/** What came of a round. */
type Statuses = readonly (string | null)[];
type Round = (ends: EndsOf, n: number) => Promise<Statuses>;

/** Its rounds one after the other; what one of them left open ends with it. */
async function attacking(name: string, round: Round): Promise<void> {
  tally[name] = {};
  const counts = tally[name];
  for (let n = 0; !isOver; n++) {
    const ends = new EndsOf();
    const statuses = await round(ends, n).catch((error: unknown) => {
      if (error instanceof Unanswered) return ['cut'];
      throw error;
    });
    await ends.end();
    for (const status of statuses) counts[status ?? 'cut'] = (counts[status ?? 'cut'] ?? 0) + 1;
    // An attack that is answered at once leaves the others their turn.
    await sleep(0);
  }
}

/** What came of each until it is let go. */
async function heldOpen(sent: readonly Sent[]): Promise<Statuses> {
  const statuses = new Map<Sent, string | null>();
  for (const one of sent) void one.status.then((status) => statuses.set(one, status));
  await held();
  return sent.map((one) => (statuses.has(one) ? (statuses.get(one) ?? null) : 'held'));
}

process.once('message', (begin: Begin) => void attack(begin));
process.once('disconnect', () => process.exit());

async function attack({ hub, attacks }: Begin): Promise<void> {
  setPriority(19);
  const partner = (partyId: string, more: object = {}) =>
    partnerFor(all, hub, { role: 'CPO', countryCode: 'NL', partyId, ...more });
  const wanted = new RegExp(attacks ?? '');
  const rounds: Record<string, Round> = {};

  const disk = await partner('BDK');
  rounds['large sessions (I7)'] = async (_, n) => [await pushLargeSession(disk, `S${n % 40}`)];

  const growing = await partner('BGR');
  rounds['an object that grows (I5)'] = async (_, n) => {
    const path = `/2.2.1/sessions/NL/BGR/S${n % 40}`;
    const statuses = [statusOf(await growing.call('PUT', path, sessionBody(`S${n % 40}`, { party_id: 'BGR' })))];
    for (let step = 0; step < 3; step++)
      statuses.push(await patch(growing, path, { [`x${step}`]: 'x'.repeat(500_000) }));
    return statuses;
  };

  const appending = await partner('BAP');
  const long = longSession(appending);
  rounds['fragments of a few bytes for a large session (I5)'] = async (_, n) => {
    if (n % 100 === 0) return [statusOf(await appending.call('PUT', long.path, long.whole()))];
    return Promise.all(Array.from({ length: 8 }, (_, at) => patch(appending, long.path, long.more(8 * n + at))));
  };

  const listing = await partner('BLI');
  const many = manyItems(listing);
  const wrong = wrongItems(listing);
  rounds['lists of very many items (I1, I5)'] = async (_, n) => {
    if (n % 10 === 0) return [statusOf(await listing.call('PUT', many.path, many.whole()))];
    return [
      await patch(listing, many.path, many.more(n)),
      statusOf(await listing.call('PUT', wrong.path, n % 2 ? wrong.countless() : wrong.whole())),
    ];
  };

  const unread = await partner('BUR');
  const unreadPath = await pushLargeLocation(unread, 'L1');
  rounds['answers that nobody reads (I1, I2)'] = (ends) => heldOpen(askUnread(ends, hub, unread, unreadPath, 60));

  const large = await partner('BMY');
  const paths: string[] = [];
  for (let n = 0; n < 16; n++) paths.push(await pushLargeLocation(large, `L${n}`));
  rounds['fragments for many large objects (I1, I5)'] = () =>
    Promise.all([...paths, ...paths, ...paths].map((path) => patch(large, path)));

  const unended = await partner('BUE');
  rounds['bodies without an end (I2)'] = (ends) => heldOpen(sendUnended(ends, hub, unended, 40));

  const hanging = await partner('BHG');
  await partner('ACC', { role: 'EMSP', answer: () => new Promise(() => {}) });
  await admin(hub, 'PUT', '/routes/NL-ACC/NL-BHG', { active: true });
  rounds['requests that hang (I2)'] = (ends) => heldOpen(askHanging(ends, hub, hanging, 1_100));

  const pipelining = await partner('BPI');
  await admin(hub, 'PUT', '/routes/NL-ACC/NL-BPI', { active: true });
  rounds['requests that wait on connections behind one that hangs (I2)'] = (ends) =>
    heldOpen(askHanging(ends, hub, pipelining, 40, tinyRequests));

  const lost = await partner('BUP');
  rounds['paths that no route has (I2)'] = () => Promise.all(Array.from({ length: 50 }, () => askUnknown(lost)));

  const asking: PlainPartner[] = [];
  for (let n = 0; n < 8; n++) asking.push(await partner(`AN${n}`));
  rounds['name servers that do not answer (I3, I4)'] = () =>
    Promise.all(asking.map((one) => exchangeAt(one, silentUrl()).then(statusOf)));

  for (const [how, letter, port] of [
    ['a name of its own', 'N', Number(new URL(hub.url).port)],
    ['a proxy', 'P', await relayTo(all, hub)],
  ] as const) {
    const [id, emsp] = [`L${letter}C`, `L${letter}E`];
    const others = [{ role: 'EMSP', country_code: 'NL', party_id: emsp }];
    const looping = await partner(id, { others });
    await admin(hub, 'PUT', `/routes/NL-${emsp}/NL-${id}`, { active: true });
    const led = await leadBack(all, looping, emsp, port);
    if (statusOf(led) !== '200/1000') throw new Error(`${how}: ${led.text}`);
    rounds[`an endpoint that leads back by ${how} (I6)`] = async (_, n) => {
      const body = locationBody(`L${n % 100}`, { party_id: id, name: `${n}` });
      const status = statusOf(await looping.call('PUT', `/2.2.1/locations/NL/${id}/L${n % 100}`, body));
      await sleep(100);
      return [status];
    };
  }

  const answered = await partner('BAW');
  const endless = await partner('BAE', { role: 'EMSP' });
  await admin(hub, 'PUT', '/routes/NL-BAE/NL-BAW', { active: true });
  const url = `${await unendedServer(all)}/sessions`;
  const endpoints = [{ identifier: 'sessions', role: 'RECEIVER', url }];
  await admin(hub, 'PUT', `/parties/${endless.id}/endpoints`, { endpoints });
  const cdrToken = { country_code: 'NL', party_id: 'BAE', uid: 'U1', type: 'RFID', contract_id: 'C1' };
  rounds['answers to deliveries that do not end (I5)'] = async (_, n) => {
    const body = sessionBody(`S${n % 1_000}`, { party_id: 'BAW', cdr_token: cdrToken });
    const status = statusOf(await answered.call('PUT', `/2.2.1/sessions/NL/BAW/S${n % 1_000}`, body));
    await sleep(30);
    return [status];
  };

  rounds['requests without a token (I8)'] = async (ends) => {
    const sent = strangers(ends, hub, 400, unknownToken.repeat(40));
    while (!isOver && open(sent) > 0) await sleep(50);
    return answers(sent);
  };
  rounds['connections that nobody uses (I8)'] = async (ends) => {
    const sent = strangers(ends, hub, 400, onlyHealth);
    await held();
    return answers(sent);
  };
  rounds['pages that need no token (I8)'] = async (ends) => {
    const sent = strangers(ends, hub, 100, pages);
    await held();
    return answers(sent);
  };
  rounds["guesses of operators' tokens (I10)"] = async (ends, n) => {
    const sent = operatorsPaths.flatMap((path) => strangers(ends, hub, 10, guess(path, n)));
    while (!isOver && open(sent) > 0) await sleep(50);
    return answers(sent);
  };
  rounds['paths in other forms (I9)'] = () =>
    Promise.all(
      ['/ocpi/2.2.1/sessions', '/admin/v1/status'].flatMap(forms).map(async (path) => {
        const { status } = await callOnce('GET', hub.url + path.replace('http://hub', ''));
        return `${status}`;
      }),
    );
  const port = Number(new URL(hub.url).port);
  rounds['what no node sends (I13)'] = (_, n) =>
    Promise.all(
      Array.from({ length: 50 }, async (_, at) => {
        const came = await sentTo(port, malformedRequest(50 * n + at));
        return /^HTTP\/1\.1 (\d{3})/.exec(came)?.[1] ?? null;
      }),
    );

  process.once('message', () => {
    isOver = true;
    over();
  });
  process.send?.('ready');
  await Promise.all(
    Object.entries(rounds).map(([name, round]) => (wanted.test(name) ? attacking(name, round) : undefined)),
  );
  process.send?.(tally, () => process.exit());
}
