/**
 * A modal dialog: the browser's `dialog` element, which handles focus and Escape. An element with `data-first` gets the focus
 * in place of the first that can have it; when the dialog ends, the element that had it before gets it back.
 */
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { dialogs, Notices } from './notices.tsx';

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const opener = document.activeElement;
    dialogs.value += 1;
    dialog.current?.showModal();
    dialog.current?.querySelector<HTMLElement>('[data-first]')?.focus();
    return () => {
      dialogs.value -= 1;
      // Nothing outside can have the focus before the dialog is removed.
      queueMicrotask(() => {
        const next = opener?.isConnected && opener !== document.body ? opener : document.getElementById('main');
        (next as HTMLElement | null)?.focus();
      });
    };
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={heading} onClose={onClose}>
      <header>
        <h2 id={heading}>{title}</h2>
        <button type="button" class="plain" aria-label="Close" onClick={() => dialog.current?.close()}>
          ✕
        </button>
      </header>
      {children}
      <Notices isInDialog />
    </dialog>
  );
}

interface AnswersProps {
  readonly label: string;
  readonly isDisabled?: boolean;
  readonly isDangerous?: boolean;
  readonly onYes?: () => void;
  readonly onNo: () => void;
}

/** The two buttons of a dialog that asks whether to act. Without `onYes` the first one submits the form around it. */
export function Answers({ label, isDisabled = false, isDangerous = false, onYes, onNo }: AnswersProps) {
  return (
    <p class="row">
      <button
        type={onYes ? 'button' : 'submit'}
        class={isDangerous ? 'danger' : 'main'}
        disabled={isDisabled}
        onClick={onYes}
      >
        {label}
      </button>
      <button type="button" onClick={onNo}>
        Cancel
      </button>
    </p>
  );
}
