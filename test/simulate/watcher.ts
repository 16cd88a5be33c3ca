/** Shows the judge every call of the hub, and lets partners act on what they take. */
import type { Outcome } from '../../src/domain/errors.ts';
import { isModule, type ObjectModule } from '../../src/domain/modules.ts';
import type { CircuitName } from '../../src/hub/kernel/circuits.ts';
import { answerLater } from './callbacks.ts';
import { demand } from './facts.ts';
import { type Passage, readCommand, type Watcher } from './network.ts';
import type { Flight } from './owed.ts';
import type { World } from './world.ts';

type CircuitState = 'closed' | 'open' | 'halfOpen';

/** A synchronous call that is a trial of a half-open circuit. */
interface Trial {
  /** Partner and circuit. */
  readonly of: string;
  readonly isTrial: boolean;
}

const partyOf = (party: { country_code: string; party_id: string } | null) =>
  party ? `${party.country_code}-${party.party_id}` : '';

function moduleOf({ module }: Passage): ObjectModule {
  if (!isModule(module)) throw new Error(`a delivery of ${module}`);
  return module;
}

export function watcherOf(world: World): Watcher {
  const { judge } = world;
  /** Trials under way, by partner and circuit. */
  const trials = new Map<string, number>();

  function circuitOf(id: string, circuit: CircuitName): CircuitState {
    return world.created?.context.circuits.state(id, circuit) ?? 'closed';
  }

  /** The stream of the object that a delivery is about. */
  function streamOf({ module, segments, call }: Passage): string {
    if (module === 'cdrs') {
      const { country_code, party_id, id } = JSON.parse(call.body ?? '{}') as Record<string, string>;
      return `cdrs/${country_code}-${party_id}/${id?.toLowerCase()}`;
    }
    const [country, party, id = ''] = segments;
    const type = module === 'tokens' ? `/${new URL(call.url).searchParams.get('type')}` : '';
    return `${module}/${country}-${party}/${id.toLowerCase()}${type}`;
  }

  function beginsDelivery(passage: Passage): Flight {
    const { call, partner } = passage;
    const { id } = partner.company;
    const receiver = partyOf(call.to);
    const isTheirs = partner.company.members.some(({ party }) => party === receiver);
    demand(isTheirs, 'a delivery goes to its receiver', () => `${receiver} at ${id}`);
    demand(!judge.facts.gone.has(receiver), 'nothing is sent to who is not registered', () => receiver);
    const stream = streamOf(passage);
    demand(
      stream.split('/')[1] === partyOf(call.from),
      'a delivery names its owner',
      () => `${stream} from ${partyOf(call.from)}`,
    );
    const circuit = circuitOf(id, moduleOf(passage));
    const paused = world.paused.has(id);
    return judge.deliveries.begins(call, receiver, stream, id, { circuit, paused });
  }

  function beginsSync({ partner, call, kind }: Passage): Trial {
    const { id } = partner.company;
    const name = kind === 'result' ? 'results' : 'sync';
    const circuit = circuitOf(id, name);
    const of = `${id} ${name}`;
    const where = () => `${kind} ${call.url} at ${id}`;
    // A circuit that opened on failures of one caller holds back that one alone.
    const failing = world.created?.context.circuits.failingSource(id, name) ?? null;
    const mayPass = failing !== null && call.source !== failing;
    demand(circuit !== 'open' || mayPass, 'no call while the circuit is open', where);
    const count = trials.get(of) ?? 0;
    const isTrial = circuit === 'halfOpen' && !(mayPass && count > 0);
    demand(!isTrial || count === 0, 'one trial at a time while half-open', where);
    if (isTrial) trials.set(of, count + 1);
    return { of, isTrial };
  }

  return {
    begins(passage) {
      const { kind, call } = passage;
      if (kind === 'probe') return null;
      if (kind === 'delivery')
        return {
          flight: beginsDelivery(passage),
          wasHalfOpen: circuitOf(passage.partner.company.id, moduleOf(passage)) === 'halfOpen',
        };
      const trial = beginsSync(passage);
      if (kind === 'command') judge.commands.forwards(readCommand(passage).id);
      if (kind === 'result') judge.commands.relays(call.url, call.body ?? '');
      return trial;
    },
    taken(passage, flight) {
      const { kind, partner, call } = passage;
      if (kind === 'delivery') {
        judge.deliveries.taken((flight as { flight: Flight }).flight, partner.copies, call.method, call.body ?? '');
        return null;
      }
      if (kind === 'authorize') return partner.authorize();
      if (kind !== 'command') return kind === 'probe' ? [] : null;
      const { id, name, responseUrl } = readCommand(passage);
      const result = partner.command(id, name, responseUrl);
      judge.commands.took(id, result);
      return answerLater(world, partner, id, result);
    },
    ends(passage, flight, outcome) {
      const { kind } = passage;
      if (kind === 'delivery') {
        const { flight: own, wasHalfOpen } = flight as { flight: Flight; wasHalfOpen: boolean };
        judge.deliveries.ends(own, outcome);
        if (wasHalfOpen) tellTrial(outcome);
        return;
      }
      if (kind === 'probe') return;
      const { of, isTrial } = flight as Trial;
      if (isTrial) {
        trials.set(of, (trials.get(of) ?? 1) - 1);
        tellTrial(outcome);
      }
      if (kind === 'command') judge.commands.ended(readCommand(passage).id, outcome);
    },
    point: world.deaths.point,
  };

  function tellTrial({ class: met }: Outcome): void {
    if (met === 'delivered') world.hit('a half-open trial succeeded');
    else if (met === 'timeout' || met === 'unavailable') world.hit('a half-open trial failed');
  }
}
