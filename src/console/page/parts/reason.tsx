/**
 * The field for the reason of an operator's action, which the audit log records: optional in the dialog of the action;
 * required in the dialog that opens when the hub refused an action without a reason (`HUB_REQUIRE_REASON`). [D91]
 */
import { useEffect, useState } from 'preact/hooks';
import { asked, pathWith } from '../data/api.ts';
import { Answers, Dialog } from './dialog.tsx';
import { Form } from './fields.tsx';

interface Reason {
  /** Adds the reason to a path. */
  readonly given: (path: string) => string;
  readonly field: preact.JSX.Element;
}

/** Characters. */
const reasonMax = 500;

export function useReason(): Reason {
  const [reason, setReason] = useState('');
  return {
    given: (path) => pathWith(path, { reason: reason.trim() }),
    field: (
      <label>
        Reason, for the audit log
        <input
          name="reason"
          value={reason}
          maxLength={reasonMax}
          autocomplete="off"
          onInput={({ currentTarget }) => setReason(currentTarget.value)}
        />
      </label>
    ),
  };
}

/** Asks for the reason that an act lacked; closing it gives none. */
export function ReasonAsked() {
  useEffect(() => () => asked.peek()?.(null), []);
  const answer = asked.value;
  if (answer === null) return null;
  return (
    <Dialog title="Why?" onClose={() => answer(null)}>
      <Form class="stack" onSubmit={(form) => answer(String(form.get('reason')).trim())}>
        <p>This hub takes no act without a reason.</p>
        <label>
          Reason, for the audit log
          <input name="reason" required pattern=".*\S.*" maxLength={reasonMax} autocomplete="off" data-first />
        </label>
        <Answers label="Go on" onNo={() => answer(null)} />
      </Form>
    </Dialog>
  );
}
