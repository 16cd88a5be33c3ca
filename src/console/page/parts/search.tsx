/**
 * Search over everything, opened by Ctrl-K: a partner by id, party or name, a delivery, a saved view or a page; whatever else is typed
 * (an object, EVSE, contract, command, correlation id) is traced.
 */
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { SavedViewView } from '../../../api/operators.ts';
import type { OverviewRow, OverviewView } from '../../../api/overview.ts';
import { pathWith } from '../data/api.ts';
import { useQuery } from '../data/query.ts';
import { isDeliveryId } from '../data/trace-key.ts';
import { Dialog } from './dialog.tsx';
import { Form } from './fields.tsx';
import type { Destination } from './keys.tsx';
import { useViews } from './views.tsx';

interface Place {
  readonly path: string;
  readonly title: string;
  readonly what: string;
}

const isShown = signal(false);
const text = signal('');
/** Partners that are offered at most. */
const partnersMax = 8;

export function openSearch(): void {
  text.value = '';
  isShown.value = true;
}

/** Opens the search by Ctrl-K, or ⌘K, also while something is typed. */
export function useSearchKey(): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (!(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey || event.key !== 'k') return;
      event.preventDefault();
      if (!isShown.value) openSearch();
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, []);
}

export function Search({ pages, navigate }: { pages: readonly Destination[]; navigate: (path: string) => void }) {
  return isShown.value ? <Asking pages={pages} navigate={navigate} /> : null;
}

function Asking({ pages, navigate }: { pages: readonly Destination[]; navigate: (path: string) => void }) {
  const { data } = useQuery<OverviewView>('/overview');
  const places = placesFor(text.value.trim(), data?.rows ?? [], pages, useViews());
  const close = () => {
    isShown.value = false;
  };
  const go = ({ path }: Place) => {
    close();
    navigate(path);
  };
  return (
    <Dialog title="Search" onClose={close}>
      <Form
        class="search"
        onKeyDown={moved}
        onSubmit={() => {
          const [first] = places;
          if (first) go(first);
        }}
      >
        <label>
          Partner, object, EVSE, contract, command, correlation id or page
          <input
            type="search"
            value={text.value}
            onInput={({ currentTarget }) => {
              text.value = currentTarget.value;
            }}
            spellcheck={false}
            autocomplete="off"
            data-first
          />
        </label>
        <ul aria-label="Found" class="recent">
          {places.map((place) => (
            <li key={place.path}>
              <button type="button" class="plain" onClick={() => go(place)}>
                {place.title} <span class="quiet">{place.what}</span>
              </button>
            </li>
          ))}
        </ul>
      </Form>
    </Dialog>
  );
}

/** Arrow keys move between the field and what is found. */
function moved(event: KeyboardEvent & { readonly currentTarget: HTMLFormElement }): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  const stops = [...event.currentTarget.querySelectorAll<HTMLElement>('input, li button')];
  const here = stops.indexOf(document.activeElement as HTMLElement);
  stops[Math.min(stops.length - 1, Math.max(0, here + step))]?.focus();
}

/** What the text may mean, the likeliest first. */
function placesFor(
  typed: string,
  rows: readonly OverviewRow[],
  pages: readonly Destination[],
  views: readonly SavedViewView[],
): Place[] {
  if (typed === '') return [];
  const wanted = typed.toLowerCase();
  const has = (name: string) => name.toLowerCase().includes(wanted);
  const partners = rows.filter(({ id, parties, names }) => [id, ...parties, ...names].some(has)).slice(0, partnersMax);
  const traced = { path: pathWith('/trace', { key: typed }), title: typed, what: 'trace' };
  const delivery = { path: `/deliveries/${encodeURIComponent(typed)}`, title: typed, what: 'delivery' };
  return [
    ...(isDeliveryId(typed) ? [delivery] : []),
    ...partners.map(({ id, names }) => ({
      path: `/partners/${encodeURIComponent(id)}`,
      title: id,
      what: ['partner', ...names].join(' · '),
    })),
    ...views.flatMap(({ name, path }) => (has(name) ? [{ path, title: name, what: 'view' }] : [])),
    ...pages.flatMap(({ path, title }) => (title !== null && has(title) ? [{ path, title, what: 'page' }] : [])),
    traced,
  ];
}
