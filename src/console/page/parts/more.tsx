/**
 * The end of a list: how many items are shown, and a button that loads more. One request examines a limited part of a
 * list; where few items match the filter, the search goes on part by part.
 */
import { count } from '../data/format.ts';
import { freshMax, type PagedList } from '../data/paged-list.ts';

export function More<T>({ list: { data, more, isGrowing, isLoading } }: { list: PagedList<T> }) {
  if (!data) return null;
  return (
    <footer class="more">
      <span class="quiet" role="status">
        {count(data.items.length)} shown{data.cursor === null ? ', all of them' : ''}
        {data.items.length >= freshMax && '; a list this long is not refreshed automatically'}
      </span>
      {data.cursor !== null && (
        <button type="button" onClick={more} disabled={isGrowing || isLoading}>
          {data.items.length === 0 ? 'No match in the part searched so far: search further' : 'Load more'}
        </button>
      )}
    </footer>
  );
}
