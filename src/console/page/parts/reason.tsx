/**
 * The field that asks why an operator acts; what it says goes into the audit log. [D91]
 */
import { useState } from 'preact/hooks';
import { pathWith } from '../data/api.ts';

interface Reason {
  /** Adds the reason to a path. */
  readonly given: (path: string) => string;
  readonly field: preact.JSX.Element;
}

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
          maxLength={500}
          autocomplete="off"
          onInput={({ currentTarget }) => setReason(currentTarget.value)}
        />
      </label>
    ),
  };
}
