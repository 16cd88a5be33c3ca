/**
 * The two buttons of a dialog that asks whether to act.
 */
interface AnswersProps {
  readonly label: string;
  readonly isRunning: boolean;
  readonly isDangerous?: boolean;
  readonly onYes: () => void;
  readonly onNo: () => void;
}

export function Answers({ label, isRunning, isDangerous = false, onYes, onNo }: AnswersProps) {
  return (
    <p class="row">
      <button type="button" class={isDangerous ? 'danger' : 'main'} disabled={isRunning} onClick={onYes}>
        {label}
      </button>
      <button type="button" onClick={onNo}>
        Cancel
      </button>
    </p>
  );
}
