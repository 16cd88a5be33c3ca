/**
 * E2: pages of 100 in a database, of an eMSP that sees the tariffs of 300 CPOs, whose lists are merged, and of one that sees those of one
 * of them. In turns: the first page, pages at any depth, and each page by the `Link` of the one before.
 */
import { freePort } from '../../src/sandbox/free-port.ts';
import { admin } from '../support/plain-partner.ts';
import { postgresHere } from '../support/postgres.ts';
import { serverS, startServer } from './cluster.ts';
import { copySite, startCopied } from './copied.ts';
import { cpuS } from './processes.ts';
import type { Bench, Figures } from './run.ts';
import { register } from './scene.ts';
import { siteWith, stride } from './site.ts';
import { median, ratios, rounded } from './statistics.ts';
import { type Column, inTurns, rowsOf } from './turns.ts';

const owners = 300;
const limit = 100;
const path = `/ocpi/2.2.1/tariffs?limit=${limit}&offset=`;

interface Way {
  readonly name: string;
  readonly of: 'one CPO' | '300 CPOs';
  readonly authorization: string;
  /** URL of page n, where the one before named `next`. */
  readonly at: (n: number, next: string | null) => string;
}

interface Round {
  readonly databaseMs: number;
  readonly nodeMs: number;
  readonly p50Ms: number;
}

const columns: readonly Column<Round>[] = [
  ['CPU of PostgreSQL per page, ms', ({ databaseMs }) => databaseMs, 2],
  ['CPU of the node per page, ms', ({ nodeMs }) => nodeMs, 2],
  ['p50, ms', ({ p50Ms }) => p50Ms, 2],
];

export const ownersBench: Bench = {
  name: 'owners',
  goal: 'E2',
  says: `pages of ${limit} in a database, of ${owners} CPOs and of one of them`,
  async run(progress, { isShort }) {
    if (postgresHere === null) return { 'left out': 'no PostgreSQL server is installed here' };
    const [objects, turns, pages] = isShort ? [30_000, 3, 60] : [300_000, 3, 300];
    const site = await siteWith({ objects, owners }, progress);
    const { server, end } = await startServer();
    await copySite(server, site, 'pages');
    // As the server does it by itself within minutes.
    await server.query('vacuum analyze');
    const hub = await startCopied(server, site, 'pages', await freePort());
    const [receiver = ''] = site.receiver.ready.urls;
    const one = await register(hub, { role: 'EMSP', partyId: 'ONE', url: receiver });
    await admin(hub, 'PUT', '/routes/NL-ONE/NL-CPO', { active: true });
    const seen = [
      { of: 'one CPO', authorization: one, total: objects / owners },
      { of: '300 CPOs', authorization: site.emsp, total: objects },
    ] as const;
    const ways = seen.flatMap(({ total, ...who }): Way[] => [
      { ...who, name: 'the first page', at: () => `${hub.url}${path}0` },
      { ...who, name: 'pages at any depth', at: (n) => `${hub.url}${path}${(n * stride) % total}` },
      { ...who, name: 'page by page', at: (_, next) => next ?? `${hub.url}${path}0` },
    ]);
    for (const way of ways) await roundOf(way, pages);
    const measured = await inTurns(ways, turns, async (way, turn) => {
      const taken = () => [serverS(server), cpuS(hub.pid)] as const;
      const before = taken();
      const p50Ms = await roundOf(way, pages);
      const [databaseMs = 0, nodeMs = 0] = taken().map((s, i) => ((s - (before[i] ?? 0)) * 1000) / pages);
      progress(`round ${turn} of ${turns}, ${way.of}, ${way.name}: ${rounded(databaseMs)} ms of PostgreSQL a page`);
      return { databaseMs, nodeMs, p50Ms };
    });
    await hub.kill();
    await end();
    return { objects, ...figures(measured) };
  },
};

/** The median of how long a page takes, ms. */
async function roundOf({ at, authorization }: Way, pages: number): Promise<number> {
  const took: number[] = [];
  let next: string | null = null;
  for (let n = 0; n < pages; n++) {
    const begun = performance.now();
    const answer: Response = await fetch(at(n, next), { headers: { authorization } });
    const { status_code } = (await answer.json()) as { status_code: number };
    took.push(performance.now() - begun);
    if (status_code !== 1000) throw new Error(`a page was answered ${answer.status}/${status_code}`);
    next = /<([^>]+)>; *rel="next"/.exec(answer.headers.get('link') ?? '')?.[1] ?? null;
  }
  return median(took);
}

function figures(measured: ReadonlyMap<Way, readonly Round[]>): Figures {
  const all = [...measured];
  const rows = all.map(([{ of, name }, rounds]) => rowsOf(`${of}, ${name}`, rounds, columns));
  const compared = all
    .filter(([{ of }]) => of === '300 CPOs')
    .map(([{ name }, many]) => {
      const one = all.find(([way]) => way.of === 'one CPO' && way.name === name)?.[1] ?? [];
      const ratio = (of: (round: Round) => number) => ratios(many.map(of), one.map(of));
      return {
        [`${name}: ratio of CPU of PostgreSQL, 300 CPOs to one (goal: at most 3)`]: ratio(
          ({ databaseMs }) => databaseMs,
        ),
        [`${name}: ratio of p50, 300 CPOs to one (goal: at most 3)`]: ratio(({ p50Ms }) => p50Ms),
      };
    });
  return Object.assign({}, ...rows, ...compared);
}
