/**
 * Re-drives one delivery. A dead letter goes at once; a delivered or discarded one needs a confirmation, and so does one
 * of which the receiver has a newer version.
 */
import { useState } from 'preact/hooks';
import type { DeliveryView } from '../../../api/deliveries.ts';
import { useAction } from '../data/action.ts';
import { ApiError, call } from '../data/api.ts';
import { mayAct } from '../data/session.ts';
import { Answers, Dialog } from '../parts/dialog.tsx';
import { useReason } from '../parts/reason.tsx';

/** Which confirmation is open; null for none. */
type Question = 'again' | 'stale' | null;

const labels = { DEAD: 'Re-drive', DISCARDED: 'Re-drive …', DELIVERED: 'Send again …' } as const;

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
