/** Who takes care of a case or a group of dead letters, and the dialog that changes it. */
import { useState } from 'preact/hooks';
import type { TriageView } from '../../../api/common.ts';
import { useAction } from '../data/action.ts';
import { call } from '../data/api.ts';
import { caller, mayAct } from '../data/session.ts';
import { Dialog } from './dialog.tsx';
import { Form } from './fields.tsx';
import { useReason } from './reason.tsx';
import { Dash } from './states.tsx';
import { Instant, Until, useNow } from './time.tsx';

const hourMs = 3_600_000;
/** Value and label of each snooze; '' leaves it as it is. */
const snoozes: readonly (readonly [hours: string, label: string])[] = [
  ['', 'as it is'],
  ['0', 'not snoozed'],
  ['1', 'for 1 hour'],
  ['4', 'for 4 hours'],
  ['24', 'for a day'],
  ['168', 'for a week'],
];

/** One line; nothing for what nobody has touched. */
export function TriageLine({ triage }: { triage: TriageView | null }) {
  const now = useNow();
  if (triage === null) return <Dash />;
  const { assignee, snoozed_until, remarks } = triage;
  const snoozedMs = snoozed_until === null ? 0 : Date.parse(snoozed_until);
  const last = remarks.at(-1);
  return (
    <span class="triage">
      {assignee ?? <span class="quiet">nobody</span>}{' '}
      {snoozedMs > now && (
        <span class="chip">
          snoozed, wakes <Until instantMs={snoozedMs} />
        </span>
      )}{' '}
      {last && (
        <span class="quiet last" title={`${last.by}, ${last.at}`}>
          “{last.text}”
        </span>
      )}
    </span>
  );
}

interface TriageButtonProps {
  readonly name: string;
  readonly triage: TriageView | null;
  /** Path of the triage below the admin API. */
  readonly path: string;
  readonly onDone: () => void;
}

export function TriageButton({ name, triage, path, onDone }: TriageButtonProps) {
  const [isOpen, setOpen] = useState(false);
  if (!mayAct.value) return null;
  return (
    <>
      <button type="button" aria-label={`Triage … ${name}`} onClick={() => setOpen(true)}>
        Triage …
      </button>
      {isOpen && (
        <Dialog title={`Triage ${name}`} onClose={() => setOpen(false)}>
          <TriageForm
            triage={triage}
            path={path}
            onDone={() => {
              setOpen(false);
              onDone();
            }}
          />
        </Dialog>
      )}
    </>
  );
}

/** The changes of a filled form; what it leaves as it was is absent. */
function changesIn(form: FormData, before: TriageView | null): Record<string, string | null> {
  const text = (name: string) => String(form.get(name) ?? '').trim();
  const [assignee, hours, remark] = [text('assignee'), text('snooze'), text('remark')];
  const changes: Record<string, string | null> = {};
  if (assignee !== (before?.assignee ?? '')) changes.assignee = assignee || null;
  if (hours !== '')
    changes.snooze_until = hours === '0' ? null : new Date(Date.now() + Number(hours) * hourMs).toISOString();
  if (remark !== '') changes.remark = remark;
  return changes;
}

function TriageForm({ triage, path, onDone }: Omit<TriageButtonProps, 'name'>) {
  const reason = useReason();
  // As it was when the dialog was opened: what another operator changes meanwhile is not changed back.
  const [before] = useState(triage);
  const [assignee, setAssignee] = useState(before?.assignee ?? '');
  const { isRunning, run } = useAction(async (changes: Record<string, string | null>) => {
    if (Object.keys(changes).length > 0) await call('POST', reason.given(path), changes);
    onDone();
    return null;
  });
  const me = caller.value?.name ?? '';
  return (
    <Form class="stack" onSubmit={(form) => run(changesIn(form, before))}>
      {triage !== null && triage.remarks.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a long list is scrolled by keys, too
        <ul class="remarks" aria-label="Remarks" tabIndex={0}>
          {triage.remarks.map(({ at, by, text }) => (
            <li key={`${at} ${by}`}>
              <b>{by}</b> <Instant value={at} />
              <p>{text}</p>
            </li>
          ))}
        </ul>
      )}
      <div class="filters">
        <label>
          Assigned to
          <input
            name="assignee"
            value={assignee}
            maxLength={100}
            autocomplete="off"
            spellcheck={false}
            onInput={({ currentTarget }) => setAssignee(currentTarget.value)}
          />
        </label>
        <button type="button" disabled={assignee === me} onClick={() => setAssignee(me)}>
          Assign to me
        </button>
        <label>
          Snooze
          <select name="snooze">
            {snoozes.map(([hours, label]) => (
              <option key={hours} value={hours}>
                {label}
              </option>
            ))}
          </select>
        </label>
      </div>
      <p class="quiet">What is snoozed is not listed under “Needs attention” until it wakes.</p>
      <label>
        Remark
        <textarea name="remark" rows={3} maxLength={500} />
      </label>
      {reason.field}
      <p class="row">
        <button type="submit" class="main" disabled={isRunning}>
          Save
        </button>
      </p>
    </Form>
  );
}
