/**
 * The calls of a credentials exchange that the hub begins: with a token that the partner gave to the operator it reads
 * the partner's versions, and posts its own credentials there. [D81] And the queue in which
 * exchanges of a partner take turns, bounded because each of them calls the partner.
 *
 * OWN-EXCHANGE-1  The partner's versions are read before anything changes. The hub's token is issued only then, as an
 *     initial token: the partner reads the hub's versions with it before it answers, on whichever node it reaches.
 * OWN-EXCHANGE-2  Of an answer that is a refusal, or no credentials, nothing is kept.
 * OWN-EXCHANGE-3  One exchange of a partner is in progress; the next begins when it has ended.
 * OWN-EXCHANGE-4  Two more may wait, each at most 20 s, which is about what the calls of one exchange may take. The
 *     hub refuses any other as rate limited.
 */
import { HubError, type Outcome } from '../../domain/errors.ts';
import type { Trace } from '../../domain/events.ts';
import type { TokenEncoding } from '../../domain/partner-settings.ts';
import type { CredentialsBody, Partner, PartyId, PartyRole } from '../../domain/party.ts';
import { type Clock, withTimeout } from '../../kit/clock.ts';
import type { Context } from '../kernel/context.ts';
import type { Recorder } from '../kernel/recorder.ts';
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

// Bounded queue of credentials exchanges per partner. Each exchange calls the partner, so without a bound a partner
// that does not answer would pile them up.

/** Limit of a partner's exchanges, the one in progress and the waiting ones together. */
const atOnceMax = 3;
/**
 * How long an exchange waits for its turn, ms; also its `Retry-After`. It is about what the calls of one exchange may
 * take.
 */
const waitMs = 20_000;

export class ExchangeQueue {
  readonly #recorder: Recorder;
  readonly #clock: Clock;
  /** Exchanges in progress and waiting, by partner. */
  readonly #counts = new Map<PartyId, number>();

  constructor(recorder: Recorder, clock: Clock) {
    this.#recorder = recorder;
    this.#clock = clock;
  }

  async run<T>(partnerId: PartyId, exchange: () => Promise<T>): Promise<T> {
    const before = this.#counts.get(partnerId) ?? 0;
    if (before >= atOnceMax) throw tooMany();
    this.#counts.set(partnerId, before + 1);
    let state: 'waiting' | 'begun' | 'late' = 'waiting';
    const done = this.#recorder
      .inTurn(`exchange:${partnerId}`, async () => {
        if (state === 'late') throw tooMany();
        state = 'begun';
        return exchange();
      })
      .finally(() => this.#ended(partnerId));
    if (before > 0) {
      await withTimeout(this.#clock, waitMs, done);
      if (state === 'waiting') state = 'late';
    }
    // A late exchange is refused in its turn; its caller does not wait for that turn.
    if (state !== 'late') return done;
    done.catch(() => {});
    throw tooMany();
  }

  /** Whether an exchange of the partner is in progress. */
  has(partnerId: PartyId): boolean {
    return this.#counts.has(partnerId);
  }

  #ended(partnerId: PartyId): void {
    const rest = (this.#counts.get(partnerId) ?? 1) - 1;
    if (rest > 0) this.#counts.set(partnerId, rest);
    else this.#counts.delete(partnerId);
  }
}

const tooMany = () => new HubError('rateLimited', { retryAfterS: waitMs / 1000 });
