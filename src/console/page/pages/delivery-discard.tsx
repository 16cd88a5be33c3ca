/** Gives up one dead letter, or a group of them, after a confirmation. */
import { useState } from 'preact/hooks';
import type { DeadGroup, DeliveryView } from '../../../api/deliveries.ts';
import type { JobView } from '../../../api/jobs.ts';
import { useAction } from '../data/action.ts';
import { call } from '../data/api.ts';
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
