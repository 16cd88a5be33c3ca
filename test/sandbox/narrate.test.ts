import { Narrator } from '../../src/sandbox/narrate.ts';
import { t } from '../support/tap.ts';
import { pair } from './pair.ts';

function collect(isTTY: boolean, columns?: number) {
  const lines: string[] = [];
  const out = { isTTY, write: (text: string) => lines.push(text), ...(columns === undefined ? {} : { columns }) };
  return { lines, out };
}

t.test('A conversation reads as who called whom, what was answered and how long it took', async (t) => {
  const { cpo, emsp } = await pair(t);
  const { lines, out } = collect(false);
  const narrator = new Narrator(out, {});
  const unfollow = narrator.follow(cpo);
  narrator.follow(emsp);
  await cpo.pushTariff();
  await cpo.authorize(emsp.driver.uid, emsp);
  emsp.at('tariffs').answer(500, 'oh no');
  await t.rejects(cpo.pushTariff());
  await emsp.hangUp();
  await t.rejects(cpo.pushTariff());
  unfollow();
  await t.rejects(cpo.pushTariff());
  const sent = lines.filter((line) => line.includes('CPO NL-CPO  → hub'));
  t.match(sent[0], /PUT +\/tariffs\/NL\/CPO\/TARIFF-\S+ +200 · 1000 +\d+(\.\d)? ms\n$/);
  t.match(sent[1], /POST +\/tokens\/\S+ +200 · 1000 ALLOWED +\d/);
  t.match(sent[2], / 500 +\d/);
  t.match(sent[3], / (ECONN\w+|UND_ERR_SOCKET) +\d/);
  t.equal(sent.length, 4, 'and nothing after it stopped listening');
  t.equal(lines.filter((line) => line.includes('hub         → eMSP DE-EMS')).length, 3);
  const [token = ''] = emsp.ownTokens;
  t.notOk(lines.join('').includes(token), 'no token is told');
  t.notOk(lines.join('').includes(Buffer.from(token).toString('base64')));
});

t.test('A line fits the terminal, and names the node of a hub that has several', async (t) => {
  const { cpo, emsp } = await pair(t);
  for (const [columns, line] of [
    [80, /^ {5}CPO {6}→ node B {4}POST {3}\/tokens\/\S+…\S+ {2}200 · 1000 ALLOWED/],
    [120, /^ {5}CPO NL-CPO {2}→ node B {7}POST {3}\/tokens\/\S+\/authorize\?type=RFID +200 · 1000 ALLOWED/],
  ] as const) {
    const { lines, out } = collect(true, columns);
    const unfollow = new Narrator(out, { NO_COLOR: '1' }).follow(cpo, ({ authorization }) =>
      authorization?.startsWith('Token ') ? 'node B' : 'hub',
    );
    await cpo.authorize(emsp.driver.uid, emsp);
    unfollow();
    t.match(lines[0], line);
    t.equal(lines[0]?.length, columns + 1, 'with the end of the line');
  }
});

t.test('Colour is for terminals, and not when NO_COLOR is set', async (t) => {
  const painted = (isTTY: boolean, env: Record<string, string>) =>
    new Narrator(collect(isTTY).out, env).paint('red', 'x');
  t.equal(painted(false, {}), 'x');
  t.equal(painted(true, { NO_COLOR: '1' }), 'x');
  t.equal(painted(true, {}), '\u001b[31mx\u001b[39m');
});
