/** What a simulated CPO does after it took a command: calls back early, in time, late, twice or never, and once more when refused. */
import type { Json } from './reference.ts';
import type { SimulatedPartner } from './simulated-partner.ts';
import type { World } from './world.ts';

/** Times that a CPO repeats a callback that did not come through. */
const againMax = 2;

export function answerLater(world: World, partner: SimulatedPartner, id: string, result: string): Json {
  const random = world.random.fork(`callback ${id}`);
  const timeout = random.pick([null, 5, 15, 40]);
  const windowMs = (timeout ?? 30) * 1000;
  const wanted =
    result === 'ACCEPTED' ? { early: 2, inTime: 6, twice: 2, late: 1.5, never: 2 } : { never: 9, inTime: 1 };
  const plan: string = partner.callsBack ? random.weighted(wanted as Record<string, number>) : 'never';
  const at = (ms: number, which: string) =>
    callBack(world, partner, id, ms, random.pick(['ACCEPTED', 'FAILED', 'CANCELED_RESERVATION']), which, 0);
  if (plan === 'early') {
    at(0, 'early');
    world.hit('a callback came before the forward returned');
  } else if (plan === 'late') {
    at(windowMs + 60_000, 'late');
    world.hit('a callback came after the window');
  } else if (plan !== 'never') at(random.between(300, windowMs - 500), 'in time');
  if (plan === 'twice') {
    at(random.between(300, windowMs + 2_000), 'again');
    world.hit('a callback came twice');
  }
  return { result, ...(timeout !== null && { timeout }) };
}

function callBack(
  world: World,
  partner: SimulatedPartner,
  id: string,
  ms: number,
  result: string,
  which: string,
  tries: number,
): void {
  const body = JSON.stringify({ result, message: [{ language: 'en', text: `${which} ${id}` }] });
  world.agenda.at(world.agenda.now + ms, () => {
    const again = (code: string) => {
      const isWorthIt = ['down', 'lost', 'unavailable'].includes(code) && tries < againMax;
      if (isWorthIt) callBack(world, partner, id, 3_000, result, which, tries + 1);
      if (code.startsWith('callbackForward')) world.hit('a callback could not be relayed');
    };
    const credential = partner.hubToken ? world.hub?.authenticate(partner.hubToken, '127.0.0.1') : null;
    if (!world.hub) again('down');
    if (!world.hub || !credential) return;
    world.judge.commands.called(id, body);
    world.ask('callback', (hub, trace) => hub.callback(credential, id, body, result, trace), {
      ok: () => world.judge.commands.acknowledged(id, body),
      failed: again,
    });
  });
}
