/**
 * Shows the notices: what succeeded, and why something failed; screen readers announce them.
 */
import { dismiss, notices } from '../data/notices.ts';

export function Notices() {
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
