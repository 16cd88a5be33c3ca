/**
 * What a page shows without data: loading, empty, or an error; each says what to do next.
 */
import type { ComponentChildren } from 'preact';
import type { Page } from '../data/api.ts';
import { count } from '../data/format.ts';
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

interface RestProps {
  readonly page: Page<unknown>;
  /** The items shown: `newest`, `first`. */
  readonly which: string;
  /** What holds of the others, and how to see them. */
  readonly hint: string;
}

/** Says that a list goes on beyond the page that is shown; nothing when it does not. */
export function Rest({ page: { items, next_cursor }, which, hint }: RestProps) {
  if (next_cursor === null) return null;
  return (
    <p class="quiet" role="status">
      Shown: the {which} {count(items.length)}; {hint}.
    </p>
  );
}

interface AskedProps<T> {
  readonly query: Queried<T>;
  /** Name for `Could not load …`. */
  readonly what: string;
  readonly children: (data: T) => ComponentChildren;
}

/** Renders the children with the answer; an error appears above an older answer, with a button to retry. */
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
