/**
 * Checks of partners' endpoints at an operator's request: one after the other the hub tries what it will do once
 * traffic flows, and says what will break. Without `write` it only reads.
 *
 * CHECK-1  One check at a time per partner; a check ends within `limitMs`, and each call within `callMs`.
 * CHECK-2  Its calls do not count in the circuit breakers, and nothing that it reads is stored.
 * CHECK-3  A finding that is a habit of the partner bears the name under which its report counts it, and is counted
 *     there, too.
 */
import type { CheckView } from '../../api/checks.ts';
import type { ReportView } from '../../api/report.ts';
import { HubError } from '../../domain/errors.ts';
import type { Partner, PartyId } from '../../domain/party.ts';
import type { Trace } from '../../domain/trace.ts';
import { Running } from '../../kit/concurrency.ts';
import type { Context } from '../kernel/context.ts';
import type { PartnerReports } from '../partners/reports.ts';
import { findingOf, worstFirst } from './check-findings.ts';
import { CheckRun } from './check-run.ts';
import { steps } from './check-steps.ts';

/** Checks that are kept to be read. */
const keptMax = 100;
const limitMs = 120_000;

export class Checks {
  readonly #context: Context;
  readonly #reports: PartnerReports;
  readonly #reportOf: (id: PartyId) => Promise<ReportView>;
  readonly #checks = new Map<string, CheckView>();
  readonly #runs = new Running();
  readonly #closing = new AbortController();

  constructor(context: Context, reports: PartnerReports, reportOf: (id: PartyId) => Promise<ReportView>) {
    this.#context = context;
    this.#reports = reports;
    this.#reportOf = reportOf;
  }

  /** Throws `notFound`, or `conflict` when a check of the partner runs or there is nothing to call. */
  start(id: string, write: boolean, trace: Trace): string {
    const { directory, ports, recorder } = this.#context;
    const partner = directory.partner(id.toUpperCase());
    if (!partner) throw new HubError('notFound');
    if (partner.partnerToken === null || partner.url === null) {
      throw new HubError('conflict', { message: `${partner.id} is not registered: there is nothing to call` });
    }
    const running = [...this.#checks.values()].find(({ party, state }) => party === partner.id && state === 'RUNNING');
    if (running) throw new HubError('conflict', { message: `${partner.id} is being checked: ${running.id}` });
    const view: CheckView = {
      ...{ id: ports.secrets.newId(), party: partner.id, state: 'RUNNING', write, calls: 0, findings: [] },
      ...{ started_at: recorder.instant(), ended_at: null },
    };
    this.#keep(view);
    this.#runs.add(this.#run(view, partner, trace));
    return view.id;
  }

  view(id: string): CheckView {
    const view = this.#checks.get(id);
    if (!view) throw new HubError('notFound');
    return view;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#runs.ended();
  }

  #keep(view: CheckView): void {
    this.#checks.set(view.id, view);
    const [oldest = ''] = this.#checks.keys();
    if (this.#checks.size > keptMax) this.#checks.delete(oldest);
  }

  async #run(view: CheckView, partner: Partner, trace: Trace): Promise<void> {
    const { ports, recorder } = this.#context;
    const until = ports.clock.now() + limitMs;
    const run = new CheckRun(this.#context, { partner, trace, until, reports: this.#reports });
    const shown = () => ({ calls: run.calls, findings: [...run.findings.values()].sort(worstFirst) });
    const end = (state: 'DONE' | 'FAILED', error?: string) =>
      this.#keep({ ...view, ...shown(), state, ended_at: recorder.instant(), ...(error !== undefined && { error }) });
    try {
      for (const step of steps) {
        if (step.writes && !view.write) continue;
        if (this.#closing.signal.aborted) return end('FAILED', 'the hub was shut down meanwhile');
        if (run.leftMs() <= 0) {
          const seen = `the check ended after ${limitMs / 1000} s, before ${step.name}`;
          run.findings.set('unfinished', findingOf('unfinished', 'versions', seen));
          break;
        }
        await step.run(run);
        this.#keep({ ...view, ...shown() });
      }
      run.takeReport(await this.#reportOf(partner.id));
      end('DONE');
    } catch (error) {
      ports.log.error({ err: error, check: view.id, partyId: partner.id }, 'a check of a partner failed');
      end('FAILED', error instanceof HubError ? error.message : 'the hub met an error of its own; its log says more');
    }
  }
}
