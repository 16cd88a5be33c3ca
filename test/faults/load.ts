/**
 * The load: senders that push every kind of object, several at once and to the same objects, and send commands. Each write is in
 * the ledger before it is on the wire.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { cdrBody, locationBody, sessionBody, tariffBody, tokenBody } from '../support/bodies.ts';
import type { PlainPartner } from '../support/plain-partner.ts';
import { enter, type Sent, type Write } from './ledger.ts';
import type { World } from './world.ts';

const workers = 8;
/** After a push that was not taken, ms; a hub that starts is asked a few dozen times, one that is full not all the time. */
const again = 60;

type Draft = Pick<Write, 'method' | 'module' | 'object' | 'path' | 'to' | 'readAt'> & { fields: object };

type Kind = (world: World, number: number) => Draft & { from: string };

/** What is pushed, and how often among fifty. */
const kinds: readonly (readonly [times: number, kind: Kind])[] = [
  [23, session],
  [8, location],
  [5, tariff],
  [6, cdr],
  [8, token],
];
const chances: readonly Kind[] = kinds.flatMap(([times, kind]) => Array.from({ length: times }, () => kind));

export interface Load {
  /** Objects that exist for certain, so that a PATCH of them is taken. */
  readonly known: Set<string>;
  stop(): Promise<void>;
}

/** Pushes until it is stopped; while no hub listens only one sender goes on trying. */
export function startLoad(world: World): Load {
  const known = new Set<string>();
  let running = true;
  const work = async (worker: number) => {
    while (running) {
      if (world.isPaused || (!world.isUp && worker > 0)) await sleep(again);
      else if (world.random.happens(0.08)) await sendCommand(world);
      else if ((await push(world, known)) !== 'acknowledged') await sleep(again);
    }
  };
  const all = Promise.all(Array.from({ length: workers }, (_, worker) => work(worker)));
  return {
    known,
    async stop() {
      running = false;
      await all;
    },
  };
}

async function push(world: World, known: Set<string>) {
  world.ledger.number += 1;
  const { number } = world.ledger;
  const { fields, from, ...draft } = world.random.pick(chances)(world, number);
  const isFragment = draft.module in numbered && known.has(draft.object) && world.random.happens(0.45);
  const whole = { ...fields, last_updated: stamp(number) };
  const sent = isFragment ? fragmentOf(draft.module, whole) : whole;
  const body = JSON.stringify(sent, null, number % 3);
  const write = enter(world.ledger, {
    ...{ ...draft, number, body, sender: from, method: isFragment ? 'PATCH' : draft.method },
  });
  const [path = ''] = write.path.split('?');
  Object.assign(write, await world.call(world.partner(from), write.method, `/2.2.1${path}`, body));
  if (write.ending === 'acknowledged') known.add(write.object);
  return write.ending;
}

/** Of each module that takes a PATCH one field that the number stands in, so that every body is its own. */
const numbered: Readonly<Record<string, string>> = {
  ...{ sessions: 'kwh', locations: 'name', tokens: 'visual_number' },
};

function fragmentOf(module: string, whole: Record<string, unknown>): object {
  const field = numbered[module] ?? '';
  return { [field]: whole[field], last_updated: whole.last_updated };
}

const stamp = (number: number) => new Date(Date.UTC(2026, 0, 1) + number * 1000).toISOString();
const partyOf = ({ id }: PlainPartner) => ({ country_code: id.slice(0, 2), party_id: id.slice(3) });
const addressOf = (module: string, owner: PlainPartner, id: string) =>
  `/${module}/${partyOf(owner).country_code}/${partyOf(owner).party_id}/${id}`;

function draft(module: string, owner: PlainPartner, id: string, to: readonly string[], fields: object) {
  const path = addressOf(module, owner, id);
  const object = `${module}/${owner.id}/${id.toLowerCase()}`;
  return { ...{ module, object, path, to, fields }, method: 'PUT' as const, from: owner.id, readAt: `/2.2.1${path}` };
}

function session(world: World, number: number) {
  const owner = world.random.pick(world.cpos);
  const place = world.random.below(12);
  const emsp = world.emsps[place % 2] as PlainPartner;
  const id = `S${place}`;
  const cdr_token = { ...partyOf(emsp), uid: `U${place}`, type: 'RFID', contract_id: 'C1' };
  return draft('sessions', owner, id, [emsp.id], { ...sessionBody(id, partyOf(owner)), cdr_token, kwh: number });
}

function location(world: World, number: number) {
  const owner = world.random.pick(world.cpos);
  const id = `${owner.id.slice(3)}-L${world.random.below(4)}`;
  const fields = locationBody(id, { ...partyOf(owner), name: `Place ${number}` });
  return draft('locations', owner, id, world.emsps.map(idOf), fields);
}

function tariff(world: World, number: number) {
  const owner = world.random.pick(world.cpos);
  const id = `T${world.random.below(4)}`;
  const elements = [{ price_components: [{ type: 'ENERGY', price: number, step_size: 1 }] }];
  return draft('tariffs', owner, id, world.emsps.map(idOf), tariffBody(id, { ...partyOf(owner), elements }));
}

function cdr(world: World, number: number) {
  const owner = world.random.pick(world.cpos);
  const emsp = world.random.pick(world.emsps);
  const id = `C${number}`;
  const cdr_token = { ...partyOf(emsp), uid: 'U1', type: 'RFID', contract_id: 'C1' };
  const fields = { ...cdrBody(id, partyOf(owner)), cdr_token, session_id: `S${world.random.below(12)}` };
  return {
    ...draft('cdrs', owner, id, [emsp.id], fields),
    ...{ method: 'POST' as const, path: '/cdrs', readAt: `/2.2.1/cdrs/${id}` },
  };
}

function token(world: World, number: number) {
  const owner = world.random.pick(world.emsps);
  const uid = `K${world.random.below(6)}`;
  const fields = tokenBody(uid, { ...partyOf(owner), visual_number: `N${number}` });
  const made = draft('tokens', owner, uid, world.cpos.map(idOf), fields);
  return { ...made, object: `${made.object}/RFID`, path: `${made.path}?type=RFID` };
}

const idOf = ({ id }: PlainPartner) => id;

async function sendCommand(world: World): Promise<void> {
  world.ledger.number += 1;
  const { number } = world.ledger;
  const emsp = world.random.pick(world.emsps);
  const cpo = world.random.pick(world.cpos);
  const sent: Sent = { number, ending: 'open', answer: '', forwarded: 0, results: [] };
  world.ledger.commands.set(number, sent);
  const body = {
    response_url: `${emsp.url}/ocpi/2.2.1/commands/START_SESSION/${number}`,
    token: tokenBody('K1', partyOf(emsp)),
    location_id: `${cpo.id.slice(3)}-L0`,
    authorization_reference: String(number),
  };
  Object.assign(sent, await world.call(emsp, 'POST', '/2.2.1/commands/START_SESSION', JSON.stringify(body)));
  if (sent.ending !== 'acknowledged') await sleep(again);
}
