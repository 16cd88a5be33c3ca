/** Gives up one dead letter, or a group of them, after a confirmation; re-drives one delivery. */
import { useState } from 'preact/hooks';
import type { DeadGroup, DeliveryView } from '../../../api/deliveries.ts';
import type { JobView } from '../../../api/jobs.ts';
import { useAction } from '../data/action.ts';
import { ApiError, call } from '../data/api.ts';
import { many } from '../data/format.ts';
import { mayAct } from '../data/session.ts';
import { Answers, Dialog } from '../parts/dialog.tsx';
import { useReason } from '../parts/reason.tsx';

interface DiscardProps {
  readonly title: string;
  /** What is discarded, for who does not see where the button is. */
  readonly of?: string;
  readonly receiver: string;
  /** Gives them up; `given` adds the reason to a path. Resolves with what is said of it, if anything. */
  readonly act: (given: (path: string) => string) => Promise<string | null>;
}

export function DiscardOne({ delivery, onDone }: { delivery: DeliveryView; onDone: () => void }) {
  const { id, receiver, state } = delivery;
  if (state !== 'DEAD') return null;
  return (
    <Discard
      title="Discard this dead letter?"
      receiver={receiver}
      act={async (given) => {
        await call('POST', given(`/deliveries/${encodeURIComponent(id)}/discard`));
        onDone();
        return 'Discarded.';
      }}
    />
  );
}

interface DiscardGroupProps {
  readonly group: DeadGroup;
  readonly onStarted: (started: { job: string; of: string }) => void;
}

export function DiscardGroup({ group, onStarted }: DiscardGroupProps) {
  const { receiver, module, class: ended, count, newest_at: to } = group;
  // What dies later is not in what was confirmed.
  const filter = { receiver, module, class: ended, to: new Date(Date.parse(to) + 1).toISOString() };
  return (
    <Discard
      title={`Discard ${many(count, 'dead letter')}?`}
      of={`${module} to ${receiver}`}
      receiver={receiver}
      act={async (given) => {
        const { id } = await call<JobView>('POST', given('/discard'), { filter });
        onStarted({ job: id, of: String(count) });
        return null;
      }}
    />
  );
}

function Discard({ title, of = '', receiver, act }: DiscardProps) {
  const [isAsking, setAsking] = useState(false);
  const reason = useReason();
  const { isRunning, run } = useAction(async () => {
    const said = await act(reason.given);
    setAsking(false);
    return said;
  });
  if (!mayAct.value) return null;
  return (
    <>
      <button type="button" aria-label={`Discard … ${of}`.trim()} onClick={() => setAsking(true)}>
        Discard …
      </button>
      {isAsking && (
        <Dialog title={title} onClose={() => setAsking(false)}>
          <div class="stack">
            <p>
              {receiver} does not get what is discarded. It stays listed, with its attempts and as discarded, and can be
              re-driven from its page.
            </p>
            {reason.field}
            <Answers
              label="Discard"
              isDisabled={isRunning}
              isDangerous
              onYes={() => run()}
              onNo={() => setAsking(false)}
            />
          </div>
        </Dialog>
      )}
    </>
  );
}

/** Which confirmation is open; null for none. */
type Question = 'again' | 'stale' | null;

const labels = { DEAD: 'Re-drive', DISCARDED: 'Re-drive …', DELIVERED: 'Send again …' } as const;

/** A dead letter goes at once; a delivered or discarded one needs a confirmation, and so does one of which the receiver has a newer version. */
export function RedriveOne({ delivery, onDone }: { delivery: DeliveryView; onDone: () => void }) {
  const { id, state, receiver } = delivery;
  const [question, setQuestion] = useState<Question>(null);
  const reason = useReason();
  const { isRunning, run } = useAction(async (force: boolean) => {
    try {
      await call('POST', reason.given(`/deliveries/${encodeURIComponent(id)}/redrive`), { force });
    } catch (error) {
      if (!isStale(error)) throw error;
      setQuestion('stale');
      return null;
    }
    setQuestion(null);
    onDone();
    return `Re-driven: it is sent to ${receiver} again.`;
  });
  if (!mayAct.value || state === 'PENDING') return null;
  return (
    <>
      <button
        type="button"
        class={state === 'DEAD' ? 'main' : undefined}
        disabled={isRunning}
        onClick={() => (state === 'DEAD' ? run(false) : setQuestion('again'))}
      >
        {labels[state]}
      </button>
      {question === 'again' && (
        <Dialog
          title={state === 'DISCARDED' ? 'Re-drive it after all?' : 'Send it again?'}
          onClose={() => setQuestion(null)}
        >
          <div class="stack">
            <p>
              {state === 'DISCARDED'
                ? `An operator gave this delivery up. ${receiver} never got it.`
                : `${receiver} has taken this delivery already.`}{' '}
              It is put into its lane once more and sent as it was then, with the same correlation id.
            </p>
            <Answers
              label="Send it again"
              isDisabled={isRunning}
              onYes={() => run(false)}
              onNo={() => setQuestion(null)}
            />
          </div>
        </Dialog>
      )}
      {question === 'stale' && (
        <Dialog
          title={`${receiver} has a newer version, or may no longer have the object`}
          onClose={() => setQuestion(null)}
        >
          <div class="stack">
            <p>
              A later change of this object has arrived there, or the object is unpublished or belongs to another eMSP
              now. If this one is sent all the same, {receiver} holds the older version until the object changes again.
            </p>
            {reason.field}
            <Answers
              label="Send the older version"
              isDisabled={isRunning}
              isDangerous
              onYes={() => run(true)}
              onNo={() => setQuestion(null)}
            />
          </div>
        </Dialog>
      )}
    </>
  );
}

/** The hub's refusal of a stale delivery says that it can be forced. */
const isStale = (error: unknown) =>
  error instanceof ApiError && error.status === 409 && /\bmay force it\b/.test(error.message);
