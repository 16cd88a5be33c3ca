/**
 * Dialog that re-drives all deliveries that the page's filter finds: first a dry run, then the rate, then the start.
 */
import { useCallback, useEffect, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { JobView, RedrivePlan } from '../../../api/jobs.ts';
import { useAction } from '../data/action.ts';
import { ApiError, call } from '../data/api.ts';
import { count, many, span } from '../data/format.ts';
import { Badge } from '../parts/badge.tsx';
import { Answers, Dialog } from '../parts/dialog.tsx';
import { Form } from '../parts/fields.tsx';
import { useReason } from '../parts/reason.tsx';
import { Failed } from '../parts/states.tsx';
import { Instant } from '../parts/time.tsx';
import type { DeliveryFilterValues } from './deliveries-filter.tsx';

interface RedriveDialogProps {
  readonly filters: DeliveryFilterValues;
  readonly onClose: () => void;
  readonly onStarted: (started: { job: string; of: string }) => void;
}

const rateDefault = 50;
const sampleShown = 5;

/** States of deliveries that can be sent again, each with what they are called; a filter of another state finds dead letters. */
const kinds: Readonly<Record<string, string>> = {
  DEAD: 'Dead letters',
  DELIVERED: 'Deliveries that arrived',
  DISCARDED: 'Discarded dead letters',
};

/** The page's filter, restricted to ended deliveries. */
function wantedBy({ state, order: _order, ...rest }: DeliveryFilterValues): Record<string, string> {
  const given = Object.entries(rest).filter(([, value]) => value !== '');
  return { ...Object.fromEntries(given), state: state in kinds ? state : 'DEAD' };
}

export function RedriveDialog({ filters, onClose, onStarted }: RedriveDialogProps) {
  const [filter] = useState(() => wantedBy(filters));
  const { plan, error, planAgain } = usePlan(filter);
  const isReplay = filter.state === 'DELIVERED';
  return (
    <Dialog title={isReplay ? 'Send again what had arrived' : 'Re-drive dead letters'} onClose={onClose}>
      <div class="stack">
        <p>
          {kinds[filter.state ?? '']}
          {described(filter)}. Nothing has been sent yet.
        </p>
        {error !== null && <Failed text={`Could not find out what would be sent: ${error}`} onRetry={planAgain} />}
        {plan === null && error === null && <p class="loading">Looking what this would send …</p>}
        {plan?.matched === 0 && <p class="empty-title">There is nothing to re-drive.</p>}
        {plan !== null && plan.matched > 0 && (
          <>
            <PlanShown plan={plan} />
            <Start plan={plan} filter={filter} onStarted={onStarted} onClose={onClose} />
          </>
        )}
      </div>
    </Dialog>
  );
}

function usePlan(filter: Readonly<Record<string, string>>) {
  const [found, setFound] = useState<{ plan: RedrivePlan | null; error: string | null }>({ plan: null, error: null });
  const planAgain = useCallback(() => {
    setFound({ plan: null, error: null });
    call<RedrivePlan>('POST', '/redrive', { filter, dry_run: true }).then(
      (plan) => setFound({ plan, error: null }),
      (error: unknown) => {
        if (!(error instanceof ApiError)) throw error;
        setFound({ plan: null, error: error.message });
      },
    );
  }, [filter]);
  useEffect(planAgain, [planAgain]);
  return { ...found, planAgain };
}

function described(filter: Readonly<Record<string, string>>): string {
  const { receiver, partner, sender, module, class: ended, object, from, to } = filter;
  const parts = [
    module && ` of ${module}`,
    sender && ` from ${sender}`,
    receiver && ` to ${receiver}`,
    partner && ` to partner ${partner}`,
    ended && ` that ended with ${ended}`,
    object && ` about ${object}`,
    from && ` accepted from ${from} on`,
    to && ` accepted before ${to}`,
  ].filter(Boolean);
  return parts.length === 0 ? ' of every kind, to every receiver' : parts.join(',');
}

function PlanShown({ plan: { matched, by_receiver, stale, unregistered, sample } }: { plan: RedrivePlan }) {
  const receivers = Object.entries(by_receiver).sort(([, a], [, b]) => b - a);
  return (
    <>
      <dl class="facts">
        <dt>Found</dt>
        <dd>
          <b>{many(matched, 'delivery', 'deliveries')}</b>
        </dd>
        <dt>By receiver</dt>
        <dd>{receivers.map(([receiver, number]) => `${receiver} ${count(number)}`).join(', ')}</dd>
        <dt>Stale</dt>
        <dd>
          {stale === 0 ? 'none' : `${count(stale)}: the receiver has a newer version, or may no longer have the object`}
        </dd>
        {unregistered > 0 && (
          <>
            <dt>Left out</dt>
            <dd>{count(unregistered)}: the receiver is not registered</dd>
          </>
        )}
      </dl>
      <ul class="sample" aria-label="Some of them">
        {sample.slice(0, sampleShown).map(({ id, state, receiver, module, object, accepted_at }) => (
          <li key={id} class="row">
            <Badge state={state} />
            <Link href={`/deliveries/${encodeURIComponent(id)}`}>
              {module} {object} to {receiver}
            </Link>
            <Instant value={accepted_at} />
          </li>
        ))}
        {matched > sampleShown && <li class="quiet">and {count(matched - sampleShown)} more</li>}
      </ul>
    </>
  );
}

interface StartProps extends Pick<RedriveDialogProps, 'onStarted' | 'onClose'> {
  readonly plan: RedrivePlan;
  readonly filter: Readonly<Record<string, string>>;
}

function Start({ plan, filter, onStarted, onClose }: StartProps) {
  const [rate, setRate] = useState(rateDefault);
  const [isForced, setForced] = useState(false);
  const reason = useReason();
  const { isRunning, run } = useAction(async () => {
    // What comes later is not in what was confirmed.
    const confirmed = { ...filter, to_seq: plan.to_seq };
    const act = { filter: confirmed, rate_per_s: rate, force: isForced };
    const job = await call<JobView>('POST', isForced ? reason.given('/redrive') : '/redrive', act);
    onStarted({ job: job.id, of: String(plan.matched) });
    return null;
  });
  const sent = plan.matched - plan.unregistered - (isForced ? 0 : plan.stale);
  return (
    <Form class="stack" onSubmit={() => run()}>
      <div class="filters">
        <label>
          Rate (per second)
          <input
            type="number"
            min="0.1"
            max="1000"
            step="any"
            required
            value={rate}
            onInput={({ currentTarget }) => setRate(currentTarget.valueAsNumber)}
          />
        </label>
        {rate > 0 && <p class="quiet">takes about {span(sent / rate)}</p>}
      </div>
      {plan.stale > 0 && (
        <label>
          <input
            type="checkbox"
            checked={isForced}
            onChange={({ currentTarget }) => setForced(currentTarget.checked)}
          />
          Send the {many(plan.stale, 'stale one')} too, over the newer version
        </label>
      )}
      {isForced && reason.field}
      <Answers
        label={`Re-drive ${many(sent, 'delivery', 'deliveries')}`}
        isDisabled={isRunning || sent === 0}
        isDangerous={isForced}
        onNo={onClose}
      />
    </Form>
  );
}
