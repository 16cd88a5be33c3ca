/**
 * Checks of partners' endpoints at an operator's request: one after the other the hub tries what it will do once
 * traffic flows, and says what will break. Without `write` it only reads.
 *
 * CHECK-1  One check at a time per partner; a check ends within `limitMs`, and each call within `callMs`.
 * CHECK-2  Its calls do not count in the circuit breakers, and nothing that it reads is stored.
 * CHECK-3  A finding that is a habit of the partner bears the name under which its report counts it, and is counted
 *     there, too.
 */
import type { CheckStep, CheckView } from '../../api/checks.ts';
import type { ReportView } from '../../api/report.ts';
import { HubError } from '../../domain/errors.ts';
import type { Trace } from '../../domain/events.ts';
import type { Partner, PartyId } from '../../domain/party.ts';
import { Running } from '../../kit/concurrency.ts';
import type { Context } from '../kernel/context.ts';
import { tokenFor } from '../kernel/directory.ts';
import type { PartnerReports } from '../partners/reports.ts';
import { worstFirst } from './check-findings.ts';
import { CheckRun } from './check-run.ts';
import { steps } from './check-steps.ts';

/** Checks that are kept to be read, and of them those of one partner, which may begin them itself. */
const [keptMax, ofPartnerMax] = [100, 10];
const limitMs = 120_000;

/** The last step: what is known of the partner from elsewhere. */
const lastStep = 'what its report has counted, and its settings';

export class Checks {
  readonly #context: Context;
  readonly #reports: PartnerReports;
  readonly #reportOf: (id: PartyId) => Promise<ReportView>;
  /** Each as it is shown now, oldest first. */
  readonly #checks = new Map<string, () => CheckView>();
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
    const partner = directory.known(id);
    if (partner.partnerToken === null || partner.url === null) {
      throw new HubError('conflict', { message: `${partner.id} is not registered: there is nothing to call` });
    }
    const running = this.views(partner.id).find(({ state }) => state === 'RUNNING');
    if (running) throw new HubError('conflict', { message: `${partner.id} is being checked: ${running.id}` });
    const token = tokenFor(ports, partner);
    const view: CheckView = {
      id: ports.secrets.newId(),
      party: partner.id,
      state: 'RUNNING',
      write,
      calls: 0,
      steps: [],
      findings: [],
      started_at: recorder.instant(),
      ended_at: null,
    };
    this.#keep(view.id, () => view);
    this.#runs.add(this.#run(view, partner, token, trace));
    return view.id;
  }

  view(id: string): CheckView {
    const view = this.#checks.get(id);
    if (!view) throw new HubError('notFound');
    return view();
  }

  /** Those that are kept of a partner, or of all, newest first. */
  views(id: string | null): CheckView[] {
    const all = [...this.#checks.values()].map((view) => view()).reverse();
    return id === null ? all : all.filter(({ party }) => party === id.toUpperCase());
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#runs.ended();
  }

  #keep(id: string, view: () => CheckView): void {
    const of = view().party;
    const own = [...this.#checks]
      .filter(([known, kept]) => known !== id && kept().party === of)
      .map(([known]) => known);
    this.#checks.set(id, view);
    const isFull = own.length >= ofPartnerMax;
    const [oldest = ''] = isFull ? own : this.#checks.keys();
    if (isFull || this.#checks.size > keptMax) this.#checks.delete(oldest);
  }

  async #run(view: CheckView, partner: Partner, token: string, trace: Trace): Promise<void> {
    const { ports, recorder } = this.#context;
    const until = ports.clock.now() + limitMs;
    const run = new CheckRun(this.#context, { partner, token, trace, until, reports: this.#reports });
    const views: (() => CheckStep)[] = [];
    const work = [
      ...steps.filter(({ writes }) => view.write || !writes),
      { name: lastStep, run: async () => run.takeReport(await this.#reportOf(partner.id)) },
    ];
    const shown = () => ({
      calls: run.calls,
      steps: work.map(({ name }, index) => views[index]?.() ?? { name, state: 'open' as const, calls: 0, findings: 0 }),
      findings: [...run.findings.values()].sort(worstFirst),
    });
    this.#keep(view.id, () => ({ ...view, ...shown() }));
    const end = (state: 'DONE' | 'FAILED', error?: string) => {
      const ended = { ...view, ...shown(), state, ended_at: recorder.instant(), ...(error !== undefined && { error }) };
      this.#keep(view.id, () => ended);
    };
    try {
      for (const [index, step] of work.entries()) {
        if (this.#closing.signal.aborted) return end('FAILED', 'the hub was shut down meanwhile');
        if (run.leftMs() <= 0 && step.name !== lastStep) {
          const seen = `the check ended after ${limitMs / 1000} s, before ${step.name}`;
          run.found('unfinished', 'versions', seen);
          continue;
        }
        const [calls, findings] = [run.calls, run.findings.size];
        const stepNow = (state: CheckStep['state']) => ({
          name: step.name,
          state,
          calls: run.calls - calls,
          findings: run.findings.size - findings,
        });
        views[index] = () => stepNow('running');
        await step.run(run);
        const done = stepNow('done');
        views[index] = () => done;
      }
      end('DONE');
    } catch (error) {
      ports.log.error({ err: error, check: view.id, partyId: partner.id }, 'a check of a partner failed');
      end('FAILED', error instanceof HubError ? error.message : 'the hub met an error of its own; its log says more');
    }
  }
}
