/**
 * The calls of a credentials exchange that the hub begins: with a token that the partner gave to the operator it reads
 * the partner's versions, and posts its own credentials there. [D81]
 *
 * OWN-EXCHANGE-1  The partner's versions are read before anything changes. The hub's token is issued only then, as an
 *     initial token: the partner reads the hub's versions with it before it answers, on whichever node it reaches.
 * OWN-EXCHANGE-2  Of an answer that is a refusal, or no credentials, nothing is kept.
 */
import { HubError, type Outcome } from '../../domain/errors.ts';
import type { Trace } from '../../domain/events.ts';
import type { TokenEncoding } from '../../domain/partner-settings.ts';
import type { CredentialsBody, Partner, PartyRole } from '../../domain/party.ts';
import type { Context } from '../kernel/context.ts';
import type { IssuedCredentials } from '../ports/hub.ts';
import type { Discovered } from '../ports/ports.ts';

/** How long the partner may take to answer, ms: it reads the hub's versions meanwhile. */
const answerMs = 30_000;

/** What an operator got from the partner. */
export interface Invitation {
  readonly versionsUrl: string;
  readonly token: string;
}

export interface OwnExchange extends Discovered {
  /** The partner's answer. */
  readonly credentials: CredentialsBody;
}

interface Steps {
  /** Issues the hub's token for the partner. */
  readonly issue: () => Promise<IssuedCredentials>;
  /** The partner has answered with its credentials. */
  readonly answered: () => void;
}

/** Throws `invalid` for a URL that the hub may not call, `partnerUnusable` and the like for what the partner answers. */
export async function ownExchange(
  { ports }: Pick<Context, 'ports'>,
  partner: Partner,
  { versionsUrl, token }: Invitation,
  { issue, answered }: Steps,
  trace: Trace,
): Promise<OwnExchange> {
  const refusal = ports.client.refusal(versionsUrl);
  if (refusal !== null) throw new HubError('invalid', { message: `versions_url: ${refusal}` });
  const mayTurn = partner.settings.token_encoding_auto === true;
  const about = { partner: partner.id, module: 'credentials', object: null };
  const discover = (url: string, own: string, encoding: TokenEncoding, roles: readonly PartyRole[]) =>
    ports.versions.discover({ url, token: own, encoding, correlationId: trace.correlationId, mayTurn, roles, about });
  const found = await discover(versionsUrl, token, partner.settings.token_encoding, partner.roles);
  const url = found.endpoints.find(({ identifier }) => identifier === 'credentials')?.url ?? '';
  const outcome = await ports.client.call({
    method: 'POST',
    url,
    endpoint: url,
    token,
    encoding: found.encoding,
    from: null,
    to: null,
    requestId: ports.secrets.newId(),
    correlationId: trace.correlationId,
    body: JSON.stringify(await issue()),
    timeoutMs: answerMs,
    resend: false,
    oneObject: 'token',
    about,
  });
  const credentials = credentialsIn(outcome, ports.reader);
  answered();
  if (credentials.url === versionsUrl) return { ...found, credentials };
  return { ...(await discover(credentials.url, credentials.token, found.encoding, partner.roles)), credentials };
}

function credentialsIn(outcome: Outcome, reader: Context['ports']['reader']): CredentialsBody {
  const failed = (why: string) => new HubError('partnerUnusable', { message: `POST of the credentials: ${why}` });
  if (outcome.class !== 'delivered') throw failed(outcome.message);
  if (outcome.dataText === undefined) throw failed('the answer has no data');
  try {
    return reader.credentials(outcome.dataText);
  } catch (error) {
    if (error instanceof HubError && error.code === 'invalid') throw failed(`the answer is refused: ${error.message}`);
    throw error;
  }
}
