/** The judge of a simulated world: hears of every request, commit, settle, call and crash, and knows all the rules. */
import type { HubError, Outcome } from '../../src/domain/errors.ts';
import type { ObjectChange } from '../../src/domain/object.ts';
import type { OrphanRecord } from '../../src/domain/orphan.ts';
import type { HubSettings } from '../../src/hub/ports/ports.ts';
import type { DeliveryRow, Floor } from '../../storage/contract.ts';
import { CommandRules } from './command-rules.ts';
import type { Sometimes } from './counters.ts';
import { DeliveryRules } from './delivery-rules.ts';
import { demand, Facts, type Request } from './facts.ts';
import type { DiskEvent, MemoryDisk } from './memory-disk.ts';
import { OrphanRules } from './orphan-rules.ts';
import { type Json, same } from './reference.ts';
import type { SimulatedPartner } from './simulated-partner.ts';
import type { Surroundings } from './surroundings.ts';

/** Events that show that a rare path was taken. */
const telling: Readonly<Record<string, Sometimes>> = {
  'circuit.opened': 'a circuit opened',
  'partner.offline': 'a partner became OFFLINE',
  'partner.online': 'a partner came back from OFFLINE',
  'pull.done': 'a pull ran to its end',
  'pull.failed': 'a pull failed',
};

const objectKinds = ['locations', 'tariffs', 'sessions', 'cdrs', 'tokens'];

export class Judge {
  readonly facts: Facts;
  readonly deliveries: DeliveryRules;
  readonly commands: CommandRules;
  readonly orphans: OrphanRules;

  constructor(around: Surroundings, settings: HubSettings) {
    const compatibilityMs = settings.compatibilityWindowH * 3_600_000;
    this.facts = new Facts(around, compatibilityMs);
    this.deliveries = new DeliveryRules(this.facts, {
      concurrency: settings.deliveryConcurrency,
      windowMs: settings.retryWindowH * 3_600_000,
      windowCdrMs: settings.retryWindowCdrH * 3_600_000,
      keepMs: Math.max(settings.eventsKeepDays * 86_400_000, compatibilityMs),
    });
    this.commands = new CommandRules(this.facts);
    this.orphans = new OrphanRules(this.facts, {
      graceMs: settings.orphanGraceS * 1000,
      sweepMs: settings.orphanSweepS * 1000,
    });
  }

  begins(id: string, kind: string, life: number, change?: ObjectChange): Request {
    const { facts } = this;
    const at = facts.around.now();
    const request: Request = { id, kind, life, at, from: facts.version, end: 'open', ...(change && { change }) };
    this.facts.requests.set(id, request);
    return request;
  }

  succeeded(request: Request, stored: boolean): void {
    request.end = 'ok';
    if (!request.change || !stored) return;
    demand(this.#eventsOf(request).length === 1, 'what was acknowledged is in the log', () => request.id);
  }

  /** A refusal changes nothing; only the hub's own refusals are known to it. */
  refused(request: Request, error: unknown): void {
    const { name, code } = error as HubError;
    request.end = code === 'outcomeUnknown' ? 'lost' : 'refused';
    demand(
      name === 'HubError' && code !== 'internal',
      'a verb refuses in the words of the hub',
      () => `${request.kind} ${request.id}: ${String(error)}`,
    );
    request.code = code;
    if (request.change && request.end === 'refused')
      demand(this.#eventsOf(request).length === 0, 'a refused push changes nothing', () => `${request.id} ${code}`);
  }

  committed(events: readonly DiskEvent[]): void {
    for (const event of events) {
      const fact = this.facts.commit(event);
      const told = telling[fact.type];
      if (told) this.facts.around.hit(told);
      this.deliveries.committed(fact);
      this.commands.committed(fact);
      const story = this.commands.stories.get(fact.stream.slice('command:'.length));
      const requested = story?.requested.data;
      const isStop = requested?.command === 'STOP_SESSION' && typeof requested.sessionId === 'string';
      const session = isStop ? `sessions/${requested.cpo}/${String(requested.sessionId).toLowerCase()}` : null;
      this.orphans.committed(fact, session, story ? this.facts.around.earliestOf(story.requested.stamp) : 0);
    }
  }

  settled(rows: readonly DeliveryRow[], floors: readonly Floor[]): void {
    this.deliveries.settled(rows, floors);
  }

  trimmed(upTo: number): void {
    this.deliveries.trimmed(upTo);
  }

  crashed(disk: MemoryDisk): void {
    for (const request of this.facts.requests.values()) if (request.end === 'open') request.end = 'lost';
    this.deliveries.crashed(disk);
    this.facts.crashed();
  }

  /** After the healing: log and rows agree, everything has ended, receivers hold what the hub holds. */
  final(disk: MemoryDisk, partners: ReadonlyMap<string, SimulatedPartner>, now: number): void {
    this.#rows(disk);
    this.deliveries.final();
    const records = <T>(kind: string) =>
      [...(disk.rows.get(kind)?.values() ?? [])].map(({ data }) => JSON.parse(data) as T);
    this.commands.final(
      new Map(records<{ id: string; state: string }>('commands').map(({ id, state }) => [id, state])),
      disk.horizon,
    );
    this.orphans.final(records<OrphanRecord>('orphans'), now, disk.horizon);
    for (const { receiver, stream } of this.deliveries.wholeLanes()) {
      const copy = [...partners.values()]
        .map(({ copies }) => copies.get(`${receiver} ${stream}`))
        .find((one) => one !== undefined);
      const held = this.facts.objects.get(stream) ?? null;
      demand(
        same(copy ?? null, held),
        'receivers end with what the hub has',
        () => `${receiver} ${stream}: ${JSON.stringify(copy)} is not ${JSON.stringify(held)}`,
      );
    }
  }

  /** Each row is what its log makes of it. */
  #rows(disk: MemoryDisk): void {
    let count = 0;
    for (const kind of objectKinds) {
      for (const { owner, id, body } of disk.rows.get(kind)?.values() ?? []) {
        const stream = `${kind}/${owner}/${id}`;
        const held: Json | undefined = this.facts.objects.get(stream);
        count++;
        demand(
          same(JSON.parse(body ?? 'null'), held),
          'a row is what its log makes of it',
          () => `${stream}: ${body} is not ${JSON.stringify(held)}`,
        );
      }
    }
    demand(
      count === this.facts.objects.size,
      'each object of the log has its row',
      () => `${count} of ${this.facts.objects.size}`,
    );
  }

  #eventsOf({ id }: Request) {
    return (this.facts.byCorrelation.get(id) ?? []).filter(({ type }) => type.startsWith('object.'));
  }

  /** How a forward of a command ended, as its CPO and the network know. */
  forwarded(id: string, outcome: Outcome): void {
    this.commands.ended(id, outcome);
  }
}
