/**
 * What a page shows when there is nothing to show: still asking, nothing there, or an error; each says what to do next.
 */
import type { ComponentChildren } from 'preact';
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

interface AskedProps<T> {
  readonly query: Queried<T>;
  /** In words, for `Could not load …`. */
  readonly what: string;
  readonly children: (data: T) => ComponentChildren;
}

/** Children with the answer; an error stands above an older answer, and has a button to try again. */
export function Asked<T>({ query: { data, error, isLoading, reload }, what, children }: AskedProps<T>) {
  return (
    <>
      {error && (
        <div class="error" role="alert">
          <p>
            Could not load {what}: {error.message}
          </p>
          <button type="button" onClick={reload}>
            Try again
          </button>
        </div>
      )}
      {data !== undefined && children(data)}
      {data === undefined && isLoading && !error && <p class="loading">Loading {what} …</p>}
    </>
  );
}
