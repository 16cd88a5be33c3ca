/** The steps of a check of a partner, in order: versions, endpoints, lists, receivers, authorization, and writes. */
import { HubError, isRefusal, mayRefuseToken } from '../../domain/errors.ts';
import { secondText } from '../../domain/instant.ts';
import type { ObjectModule } from '../../domain/modules.ts';
import type { TokenEncoding } from '../../domain/partner-settings.ts';
import { below, keyOf, type PartyRole } from '../../domain/party.ts';
import { enumValue, quirkOf, quirks } from '../../domain/quirks.ts';
import { dayMs } from '../../kit/clock.ts';
import { resolvedLink } from '../../kit/url.ts';
import type { InspectedPage } from '../ports/ports.ts';
import type { CheckRun, Step } from './check-run.ts';
import { writeSteps } from './check-writes.ts';

export const steps: readonly Step[] = [
  { name: 'versions', run: checkVersions },
  { name: 'version details', run: checkDetails },
  { name: 'lists', run: checkLists },
  { name: 'receivers', run: checkReceivers },
  { name: 'authorization', run: checkAuthorization },
  ...writeSteps,
];

/** What a role must offer, to be sent or asked everything. */
const needed = {
  CPO: ['commands/RECEIVER', 'tokens/RECEIVER', 'locations/SENDER'],
  EMSP: ['sessions/RECEIVER', 'cdrs/RECEIVER', 'tokens/SENDER'],
} as const;

const hasRole = ({ partner }: CheckRun, role: PartyRole['role']) => partner.roles.some((one) => one.role === role);

async function checkVersions(check: CheckRun): Promise<void> {
  const url = check.partner.url ?? '';
  const ask = (encoding: TokenEncoding, isAnonymous = false) =>
    check.call({ method: 'GET', module: 'versions', url, endpoint: url, encoding, isAnonymous });
  const base64 = await ask('base64');
  const plain = await ask('plain');
  check.encoding = mayRefuseToken(base64) && !mayRefuseToken(plain) ? 'plain' : 'base64';
  if (check.encoding === 'plain')
    check.found('plain-token', 'versions', `base64: ${base64.message}; plain: taken`, true);
  const usual = check.encoding === 'plain' ? plain : base64;
  if (usual.class !== 'delivered') return check.found('unreachable', 'versions', `GET ${url}: ${usual.message}`);
  const anonymous = await ask(check.encoding, true);
  if (anonymous.class !== 'delivered') {
    check.found('needs-user-agent', 'versions', `without User-Agent: ${anonymous.message}`);
  }
}

async function checkDetails(check: CheckRun): Promise<void> {
  const { context, partner, encoding } = check;
  for (const role of ['CPO', 'EMSP'] as const) {
    for (const name of hasRole(check, role) ? needed[role] : []) {
      const [module = '', side] = name.split('/') as [string, 'SENDER' | 'RECEIVER'];
      if (!check.endpoint(module, side)) check.found('endpoint-missing', module, `no ${module} endpoint as ${side}`);
    }
  }
  if (hasRole(check, 'EMSP')) {
    for (const module of ['locations', 'tariffs']) {
      const has = check.endpoint(module, 'RECEIVER') !== undefined;
      if (!has) check.found('not-subscribed', module, `no ${module} endpoint as RECEIVER`);
    }
  }
  try {
    const asked = {
      url: partner.url ?? '',
      token: check.token,
      encoding,
      correlationId: check.correlationId,
      mayTurn: false,
      roles: partner.roles,
    };
    const { endpoints, quirks: met } = await context.ports.versions.discover({
      ...asked,
      about: { partner: partner.id, module: 'versions', object: null },
    });
    for (const quirk of met) check.found(quirk, 'versions', quirks[quirk], true);
    for (const { identifier, role, url } of endpoints) {
      const known = partner.endpoints.find((one) => one.identifier === identifier && one.role === role);
      if (known?.source === 'discovered' && known.url !== url) {
        check.found('endpoint-changed', identifier, `it registered ${known.url}, and lists ${url} now`);
      }
    }
  } catch (error) {
    if (!(error instanceof HubError)) throw error;
    check.found('versions-unusable', 'versions', error.message);
  }
}

// Lists

async function checkLists(check: CheckRun): Promise<void> {
  const own = { CPO: ['locations', 'tariffs', 'sessions', 'cdrs'], EMSP: ['tokens'] } as const;
  for (const role of ['CPO', 'EMSP'] as const) {
    for (const module of hasRole(check, role) ? own[role] : []) await checkList(check, module);
  }
}

async function checkList(check: CheckRun, module: ObjectModule): Promise<void> {
  const endpoint = check.endpoint(module, 'SENDER')?.url;
  if (endpoint === undefined) return;
  const { clock } = check.context.ports;
  const from = secondText(clock.wall() - 30 * dayMs);
  const query = module === 'sessions' ? `date_from=${encodeURIComponent(from)}&` : '';
  const pageOf = (limit: number) =>
    check.page({ module, endpoint, url: below(endpoint, [], `${query}limit=${limit}`) });
  for (const limit of [1, 2]) {
    const page = await pageOf(limit);
    if (!checkPage(check, module, limit, page)) return;
    if (limit === 1) await checkNext(check, module, endpoint, page);
  }
}

/** Whether there is a list to look at. */
function checkPage(check: CheckRun, module: ObjectModule, limit: number, page: InspectedPage): boolean {
  const { outcome, texts, total } = page;
  // A pull reads it as an empty list, too.
  const isLeftOut = outcome.class === 'delivered' && (outcome.data ?? null) === null;
  if (isLeftOut) check.found('list-without-data', module, `limit=${limit}: ${quirks['list-without-data']}`);
  else if (outcome.class !== 'delivered' || !Array.isArray(outcome.data)) {
    const seen = outcome.class === 'delivered' ? 'its data is no array' : outcome.message;
    check.found('list-failed', module, `limit=${limit}: ${seen}`);
    return false;
  }
  if (!/^\d+$/.test(total)) check.found('no-total', module, `X-Total-Count: ${total || 'absent'}`);
  if (!/^\d+$/.test(page.limit)) check.found('no-limit', module, `X-Limit: ${page.limit || 'absent'}`);
  if (texts.length > limit) check.found('limit-ignored', module, `limit=${limit} brought ${texts.length} objects`);
  for (const text of texts.slice(0, limit)) checkObject(check, module, text);
  return true;
}

async function checkNext(
  check: CheckRun,
  module: ObjectModule,
  endpoint: string,
  { next, texts, total }: InspectedPage,
): Promise<void> {
  const isMore = Number(total) > texts.length;
  if (next === null) {
    if (isMore)
      check.found('no-next-link', module, `${texts.length} of ${total} objects, and no link to the next page`);
    return;
  }
  const url = resolvedLink(next, endpoint);
  if (url === null) return check.found('unreadable-next-link', module, `Link: <${next}>`);
  const isOwn = new URL(url).origin === new URL(endpoint).origin;
  if (!isOwn) return check.found('foreign-next-link', module, `Link: <${next}>`);
  const page = await check.page({ module, endpoint, url });
  if (isMore && isRefusal(page.outcome)) return check.found('refused-next-link', module, page.outcome.message);
  if (!checkPage(check, module, 1, page)) return;
  if (page.texts[0] !== undefined && page.texts[0] === texts[0]) {
    check.found('same-page', module, `the second page begins with the object of the first`);
  }
}

function checkObject(check: CheckRun, module: ObjectModule, text: string): void {
  try {
    const whole = check.context.ports.reader.read(module, text);
    const owner = keyOf(whole);
    const isOwn = check.partner.roles.some((role) => keyOf(role) === owner);
    // The id of a token is its uid, which viewers must not see, and no mask finds it in this text. [MASK-1]
    const name = module === 'tokens' ? `a token of ${owner}` : `${owner}/${whole.id}`;
    if (!isOwn) check.found('foreign-object', module, name);
    for (const quirk of whole.quirks) check.found(quirk, module, `${name}: ${quirks[quirk]}`);
    for (const warning of whole.warnings) {
      check.found(quirkOf(warning) ?? 'object-warning', module, `${name}: ${warning}`);
    }
  } catch (error) {
    if (!(error instanceof HubError)) throw error;
    check.found('object-refused', module, `${text.slice(0, 80)}: ${error.message}`);
  }
}

// Receivers

/** No object of any party. */
const unknownId = 'OCPI-HUB-CHECK-UNKNOWN';

async function checkReceivers(check: CheckRun): Promise<void> {
  const { country_code, party_id } = check.hub;
  for (const module of ['locations', 'tariffs', 'sessions', 'tokens'] as const) {
    const endpoint = check.endpoint(module, 'RECEIVER')?.url;
    if (endpoint === undefined) continue;
    const url = below(endpoint, [country_code, party_id, unknownId]);
    const outcome = await check.call({ method: 'GET', module, url, endpoint });
    const { httpStatus, ocpiStatus, class: met, message } = outcome;
    if (met === 'delivered') check.found('unknown-found', module, `GET of ${unknownId}: ${message}`);
    else if (httpStatus === null || httpStatus >= 500 || httpStatus === 405) {
      check.found('get-failed', module, `GET of ${unknownId}: ${message}`);
    } else if (ocpiStatus === null) check.found('no-envelope', module, `GET of ${unknownId}: ${message}`);
  }
}

async function checkAuthorization(check: CheckRun): Promise<void> {
  const endpoint = check.endpoint('tokens', 'SENDER')?.url;
  if (endpoint === undefined || !hasRole(check, 'EMSP')) return;
  const url = below(endpoint, [unknownId, 'authorize'], 'type=RFID');
  const asked = { method: 'POST', module: 'tokens', url, endpoint, oneObject: 'allowed' } as const;
  const { class: met, httpStatus, data, message, ocpiStatus } = await check.call(asked);
  const allowed = enumValue((data as { allowed?: unknown } | null | undefined)?.allowed);
  if (met === 'delivered' && allowed === 'ALLOWED') check.found('allows-anyone', 'tokens', `${unknownId} is ALLOWED`);
  else if (met === 'delivered' ? typeof allowed !== 'string' : httpStatus === null || httpStatus >= 500) {
    check.found('authorize-failed', 'tokens', `${unknownId}: ${message}`);
  } else if (met !== 'delivered' && ocpiStatus === null) check.found('no-envelope', 'tokens', `authorize: ${message}`);
}
