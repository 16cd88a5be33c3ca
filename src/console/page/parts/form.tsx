/** A form that sends nothing by itself: a function of the page gets its fields, and the button that submitted it. */
import type { JSX } from 'preact';

interface FormProps extends Omit<JSX.FormHTMLAttributes<HTMLFormElement>, 'onSubmit'> {
  readonly onSubmit: (fields: FormData, submitter: HTMLElement | null) => void;
}

export function Form({ onSubmit, ...rest }: FormProps) {
  return (
    <form
      {...rest}
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit(new FormData(event.currentTarget), event.submitter);
      }}
    />
  );
}
