/** A partner's handshake live, step by step, with the reason when it fails. */
import { useEffect } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { HandshakeStep, HandshakeView, PartyView } from '../../../api/parties.ts';
import { liveStatus } from '../data/actors.ts';
import { at } from '../data/format.ts';
import { useQuery } from '../data/query.ts';
import { Card, type PartnerProps } from '../parts/card.tsx';
import { Liveness, useWatch } from '../parts/live.tsx';

interface Step {
  readonly title: string;
  readonly note: string | null;
  readonly state: 'done' | 'now' | 'failed' | 'open';
}

export function Handshake({ party, reload }: PartnerProps) {
  const watch = useWatch({ ids: [`partner:${party.id}`] });
  const { data, reload: again } = useQuery<HandshakeView>(`/parties/${party.id}/handshake`, 700);
  const status = liveStatus(watch, party.id) ?? party.status;
  useEffect(() => {
    reload();
    again();
  }, [status]);
  const isConnected = status === 'CONNECTED' || status === 'OFFLINE';
  const steps = stepsOf(data?.steps ?? [], party, isConnected);
  const failure = steps.find(({ state }) => state === 'failed');
  return (
    <Card title="Handshake" beside={<Liveness watch={watch} />}>
      <ol class="inside steps">
        {steps.map(({ title, note, state }) => (
          <li key={title} class={state} aria-current={state === 'now' ? 'step' : undefined}>
            <span class={`mark ${tones[state]}`} aria-hidden="true">
              {marks[state]}
            </span>
            <div>
              <strong>{title}</strong>
              <span class="unseen">: {words[state]}</span>
              {note && <p class="quiet">{note}</p>}
            </div>
          </li>
        ))}
      </ol>
      <div role="status" class="outcome">
        {failure && (
          <p class="inside failure">
            The handshake failed: {failure.note}. {hintFor(failure.note ?? '')} The partner can try again with the same
            token.
          </p>
        )}
        {isConnected && <Next party={party} />}
      </div>
    </Card>
  );
}

function Next({ party: { id } }: { party: PartyView }) {
  return (
    <div class="inside next">
      <p>
        <strong>{id} is connected.</strong> Next: say with whom it exchanges data.
      </p>
      <div class="row">
        <Link class="button" href={`/routing?party=${id}`}>
          Next: routing
        </Link>
        <Link href={`/partners/${id}`}>Its page</Link>
      </div>
    </div>
  );
}

const marks = { done: '✓', now: '◐', failed: '▲', open: '○' } as const;
const tones = { done: 'good', now: 'wait', failed: 'bad', open: 'off' } as const;
const words = { done: 'done', now: 'waiting', failed: 'failed', open: 'to come' } as const;

function stepsOf(recorded: readonly HandshakeStep[], party: PartyView, isConnected: boolean): Step[] {
  const last = (step: HandshakeStep['step']) => recorded.findLast((one) => one.step === step);
  const [called, received, failed] = [last('called'), last('received'), recorded.at(-1)];
  const found = party.endpoints.filter(({ source }) => source === 'discovered');
  const hasFailed = failed?.step === 'failed' && !isConnected;
  const reached = [
    isConnected || called !== undefined,
    isConnected || received !== undefined,
    isConnected || (found.length > 0 && party.status === 'CONNECTED'),
    isConnected,
  ];
  const now = reached.indexOf(false);
  const when = (step: HandshakeStep | undefined) => (step ? at(step.at) : null);
  const titles: readonly (readonly [string, string | null])[] = [
    ['It asked for the versions with its initial token', when(called)],
    ['It sent its credentials', when(received)],
    ['The hub read its versions and endpoints', found.length > 0 ? modulesOf(found) : null],
    ['Connected', isConnected ? when(last('connected')) : null],
  ];
  return titles.map(([title, note], index) => {
    if (reached[index]) return { title, note, state: 'done' };
    if (index === now && hasFailed) return { title, note: failed?.reason ?? null, state: 'failed' };
    return { title, note: index === now ? (waiting[index] ?? null) : null, state: index === now ? 'now' : 'open' };
  });
}

/** What each step waits for. */
const waiting = [
  'Nothing came yet. Without a sign of it, its token or its header is wrong: the hub cannot tell whose a wrong token is.',
  'Versions fetched; waiting for POST /credentials.',
  'The hub is asking it.',
];

function modulesOf(endpoints: PartyView['endpoints']): string {
  return [...new Set(endpoints.map(({ identifier }) => identifier))].join(', ');
}

const hints: readonly (readonly [RegExp, string])[] = [
  [/assigned by the hub/, 'The roles in its credentials must be those that were set here.'],
  [/Cannot fetch/, 'The url in its credentials must be reachable from the hub, with the token that it sent.'],
  [/do not include|not those of/, 'It has to offer OCPI 2.2.1.'],
  [/lack the credentials/, 'Its version details must name its credentials module.'],
];

const hintFor = (reason: string) => hints.find(([fits]) => fits.test(reason))?.[1] ?? '';
