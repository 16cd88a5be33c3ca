/** One check of a partner: its calls, and what they found. */
import type { FindingView } from '../../api/checks.ts';
import type { ReportView } from '../../api/report.ts';
import type { Outcome } from '../../domain/errors.ts';
import type { Trace } from '../../domain/events.ts';
import { healedBy } from '../../domain/habits.ts';
import { choicesOf, type PartnerChoices, settingText, type TokenEncoding } from '../../domain/partner-settings.ts';
import { type Endpoint, endpointOf, type InterfaceRole, keyOf, type Partner } from '../../domain/party.ts';
import { isQuirk, quirkOf, quirks } from '../../domain/quirks.ts';
import { refusalKind } from '../../domain/report.ts';
import type { Context } from '../kernel/context.ts';
import type { PartnerReports } from '../partners/reports.ts';
import type { HeaderParty, InspectedPage, OutboundCall } from '../ports/ports.ts';
import { findingOf, habitRefused, habitsSet } from './check-findings.ts';

/** Time-out of one call, ms. */
const callMs = 10_000;

type Asked = Pick<OutboundCall, 'method' | 'url'> &
  Partial<Pick<OutboundCall, 'body' | 'endpoint' | 'encoding' | 'isAnonymous' | 'oneObject' | 'emptyOk'>> & {
    /** For which module the call is made; `versions` for versions and credentials. */
    readonly module: string;
  };

interface Parts {
  readonly partner: Partner;
  readonly token: string;
  readonly trace: Trace;
  /** When the check ends at the latest, hub time. */
  readonly until: number;
  readonly reports: PartnerReports;
}

export interface Step {
  readonly name: string;
  /** Whether it changes something at the partner. */
  readonly writes?: true;
  readonly run: (check: CheckRun) => Promise<void>;
}

export class CheckRun {
  readonly context: Context;
  readonly partner: Partner;
  /** By module and name. */
  readonly findings = new Map<string, FindingView>();
  calls = 0;
  /** What was tried last: a finding says what it was found by. */
  tried = '';
  /** The encoding of the token that was taken. */
  encoding: TokenEncoding;
  readonly #parts: Parts;
  readonly token: string;
  readonly correlationId: string;
  /** The hub's own party, in whose name the check asks. */
  readonly hub: HeaderParty;

  constructor(context: Context, parts: Parts) {
    this.context = context;
    this.partner = parts.partner;
    this.#parts = parts;
    this.token = parts.token;
    this.correlationId = parts.trace.correlationId;
    const { countryCode: country_code, partyId: party_id } = context.settings;
    this.hub = { country_code, party_id };
    this.encoding = parts.partner.settings.token_encoding;
  }

  leftMs(): number {
    return this.#parts.until - this.context.ports.clock.now();
  }

  /** Adds a finding, once for each module; a quirk that was found here is counted in the report. [CHECK-3] */
  found(name: string, module: string, seen: string, isCounted = false): void {
    const key = `${module} ${name}`;
    if (this.findings.has(key)) return;
    this.findings.set(key, findingOf({ name, module, tried: this.tried, seen }, this.#settings()));
    if (isQuirk(name) && !isCounted) {
      this.#parts.reports.used({ partner: this.partner.id, module, object: null }, [name]);
    }
  }

  /**
   * As they are now: an operator may heal something while the check runs. `auto` finds the form of the token out in an
   * exchange alone: until the next one, a form that the partner refuses is in use as if an operator had fixed it.
   */
  #settings(): PartnerChoices {
    const { settings } = this.context.directory.partner(this.partner.id) ?? this.partner;
    const choices = choicesOf(settings);
    return settings.token_encoding === this.encoding
      ? choices
      : { ...choices, token_encoding: settings.token_encoding };
  }

  endpoint(module: string, role: InterfaceRole): Endpoint | undefined {
    return endpointOf(this.partner, module, role);
  }

  async call(asked: Asked): Promise<Outcome> {
    const outcome = await this.context.ports.client.call(this.#request(asked));
    return this.#noted(asked.module, outcome);
  }

  async page(asked: Pick<Asked, 'module' | 'url' | 'endpoint'>): Promise<InspectedPage> {
    const page = await this.context.ports.inspector.page(this.#request({ ...asked, method: 'GET' }));
    this.#noted(asked.module, page.outcome);
    return page;
  }

  /** What the report of the partner has counted so far, also from its traffic, and the habits that operators know of. */
  takeReport({ quirks: counted, warnings, refused, dead_letters }: ReportView): void {
    this.tried = 'its report, of all its traffic';
    for (const { quirk, module, count, example } of counted) {
      this.found(quirk, module, `counted ${times(count)}: ${example}`, true);
    }
    for (const { module, count, example } of warnings) {
      this.found(quirkOf(example) ?? 'object-warning', module, `warned of ${times(count)}: ${example}`, true);
    }
    for (const one of refused) {
      const { module, count, reason, method, path } = one;
      // Of an exchange that was refused the registration tells; it is no push, and a later one succeeded.
      if (refusalKind(one) === 'exchanges') continue;
      this.found(
        habitRefused(one) ?? 'push-refused',
        module ?? 'all',
        `refused ${times(count)}: ${method} ${path}: ${reason}`,
        true,
      );
    }
    // Those that it sent died at others' servers.
    const own = new Set(this.partner.roles.map(keyOf));
    for (const { receiver, module, count, reason } of dead_letters) {
      if (own.has(receiver)) this.found('dead-letters', module, `${count} dead: ${reason}`, true);
    }
    this.tried = 'its settings';
    const known = new Set([...this.findings.values()].map(({ name }) => name));
    const settings = this.#settings();
    for (const habit of habitsSet(settings)) {
      const { counted: name } = habit;
      const set = settingText(healedBy(habit, settings) ?? {});
      if (!known.has(name)) this.found(name, 'all', `an operator set ${set}`, true);
    }
  }

  #noted(module: string, outcome: Outcome): Outcome {
    for (const quirk of outcome.quirks ?? []) this.found(quirk, module, quirks[quirk], true);
    return outcome;
  }

  #request({ module, ...asked }: Asked): OutboundCall {
    this.calls++;
    this.tried = `${asked.method} ${asked.url}`;
    const { ports } = this.context;
    const [role = null] = this.partner.roles;
    const isRouted = module !== 'versions';
    return {
      token: this.token,
      encoding: this.encoding,
      from: isRouted ? this.hub : null,
      to: isRouted ? role : null,
      requestId: ports.secrets.newId(),
      correlationId: this.correlationId,
      body: null,
      timeoutMs: Math.max(1, Math.min(callMs, this.leftMs())),
      resend: asked.method === 'GET',
      about: { partner: this.partner.id, module, object: null },
      ...asked,
    };
  }
}

const times = (count: number) => (count === 1 ? 'once' : `${count} times`);
