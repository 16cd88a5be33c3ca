/** Shows the notices: what succeeded, and why something failed; screen readers announce them. */
import { signal } from '@preact/signals';
import { dismiss, notices } from '../data/action.ts';

/** Dialogs that are open. While there is one all else is inert, so the notices are shown in it. */
export const dialogs = signal(0);

export function Notices({ isInDialog = false }: { isInDialog?: boolean }) {
  if (dialogs.value > 0 !== isInDialog) return null;
  return (
    <div class="notices" role="status" aria-live="polite">
      {notices.value.map(({ id, kind, text }) => (
        <p key={id} class={`notice ${kind}`}>
          <span>{text}</span>
          <button type="button" class="plain" aria-label="Dismiss" onClick={() => dismiss(id)}>
            ✕
          </button>
        </p>
      ))}
    </div>
  );
}
