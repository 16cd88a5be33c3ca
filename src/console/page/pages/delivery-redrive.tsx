/**
 * Re-drives one delivery. A dead letter goes at once; a delivered one needs a confirmation, and so does one of which
 * the receiver has a newer version.
 */
import { useState } from 'preact/hooks';
import type { DeliveryView } from '../../../api/deliveries.ts';
import { useAction } from '../data/action.ts';
import { ApiError, call } from '../data/api.ts';
import { mayAct } from '../data/session.ts';
import { Dialog } from '../parts/dialog.tsx';
import { useReason } from '../parts/reason.tsx';

/** Which confirmation is open; null for none. */
type Question = 'again' | 'stale' | null;

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
        {state === 'DEAD' ? 'Re-drive' : 'Send again …'}
      </button>
      {question === 'again' && (
        <Dialog title="Send it again?" onClose={() => setQuestion(null)}>
          <div class="stack">
            <p>
              {receiver} has taken this delivery already. It is put into its lane once more and sent as it was then,
              with the same correlation id.
            </p>
            <Answers
              label="Send it again"
              isRunning={isRunning}
              onYes={() => run(false)}
              onNo={() => setQuestion(null)}
            />
          </div>
        </Dialog>
      )}
      {question === 'stale' && (
        <Dialog title={`${receiver} has a newer version`} onClose={() => setQuestion(null)}>
          <div class="stack">
            <p>
              A later change of this object has arrived there. If this one is sent all the same, {receiver} holds the
              older version until the object changes again.
            </p>
            {reason.field}
            <Answers
              label="Send the older version"
              isRunning={isRunning}
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

/** The hub's refusal of a stale delivery names `force` as the way out. */
const isStale = (error: unknown) =>
  error instanceof ApiError && error.status === 409 && /\buse force\b/.test(error.message);

interface AnswersProps {
  readonly label: string;
  readonly isRunning: boolean;
  readonly isDangerous?: boolean;
  readonly onYes: () => void;
  readonly onNo: () => void;
}

function Answers({ label, isRunning, isDangerous = false, onYes, onNo }: AnswersProps) {
  return (
    <p class="row">
      <button type="button" class={isDangerous ? 'danger' : 'main'} disabled={isRunning} onClick={onYes}>
        {label}
      </button>
      <button type="button" onClick={onNo}>
        Leave it
      </button>
    </p>
  );
}
