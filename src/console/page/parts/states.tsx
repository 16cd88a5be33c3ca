/** What a page shows without data: loading, empty, or an error; each says what to do next. */
import { type ComponentChildren, createContext } from 'preact';
import type { Queried } from '../data/query.ts';

export function Empty({ title, hint, children }: { title: string; hint: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      <p class="quiet">{hint}</p>
      {children}
    </div>
  );
}

/** Stands for what is not known, or not there. */
export const Dash = () => <span class="quiet">–</span>;

interface FailedProps {
  /** In sentences. */
  readonly text: string;
  readonly onRetry: () => void;
}

export function Failed({ text, onRetry }: FailedProps) {
  return (
    <div class="error" role="alert">
      <p>{text}</p>
      <button type="button" onClick={onRetry}>
        Try again
      </button>
    </div>
  );
}

interface AskedProps<T> {
  readonly query: Queried<T>;
  /** Name for `Could not load …`. */
  readonly what: string;
  readonly children: (data: T) => ComponentChildren;
}

/** Whether what is shown answers an earlier question, and the answer to the present one is being loaded. */
export const IsBusy = createContext(false);

/** Renders the children with the answer; an error appears above an older answer, with a button to retry. */
export function Asked<T>({ query: { data, error, isLoading, reload }, what, children }: AskedProps<T>) {
  return (
    <>
      {error && <Failed text={`Could not load ${what}: ${error.message}`} onRetry={reload} />}
      {data !== undefined && <IsBusy.Provider value={isLoading}>{children(data)}</IsBusy.Provider>}
      {data === undefined && isLoading && !error && <p class="loading">Loading {what} …</p>}
    </>
  );
}
