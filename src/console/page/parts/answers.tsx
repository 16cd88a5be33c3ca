/** The two buttons of a dialog that asks whether to act. Without `onYes` the first one submits the form around it. */
interface AnswersProps {
  readonly label: string;
  readonly isDisabled?: boolean;
  readonly isDangerous?: boolean;
  readonly onYes?: () => void;
  readonly onNo: () => void;
}

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
