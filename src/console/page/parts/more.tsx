/**
 * The end of a list: how many items are shown, a button that loads more, and one that saves all as a file. One request examines a limited part of a
 * list; where few items match the filter, the search goes on part by part.
 */
import { useAction } from '../data/action.ts';
import { csvOf } from '../data/api.ts';
import { count } from '../data/format.ts';
import { freshMax, type PagedList, refreshedMax } from '../data/paged-list.ts';

export function More<T>({ list: { path, data, more, isGrowing, isLoading } }: { list: PagedList<T> }) {
  const saving = useAction(async () => {
    save(await csvOf(path), `${path.slice(1).split('?', 1)[0]}.csv`);
    return null;
  });
  if (!data) return null;
  return (
    <footer class="more">
      <span class="quiet" role="status">
        {count(data.items.length)} shown{data.cursor === null ? ', all of them' : ''}
        {data.items.length > refreshedMax && `; ${refreshing(data.items.length)}`}
      </span>
      {data.cursor !== null && (
        <button type="button" onClick={more} disabled={isGrowing || isLoading}>
          {data.items.length === 0 ? 'No match in the part searched so far: search further' : 'Load more'}
        </button>
      )}
      <button type="button" onClick={saving.run} disabled={saving.isRunning}>
        {saving.isRunning ? 'Saving …' : 'Save all as CSV'}
      </button>
    </footer>
  );
}

const refreshing = (shown: number) =>
  shown < freshMax
    ? `the first ${refreshedMax} are refreshed automatically`
    : 'a list this long is not refreshed automatically';

/** Saves a file under a name. */
export function save(file: Blob, name: string): void {
  const href = URL.createObjectURL(file);
  Object.assign(document.createElement('a'), { href, download: name }).click();
  // The browser has taken the file by then.
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}
