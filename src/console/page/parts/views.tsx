/**
 * Saved views: a dialog that lists them, and saves the present address under a name.
 */
import { signal } from '@preact/signals';
import { Link, useLocation, useSearch } from 'wouter-preact';
import type { SavedViewView } from '../../../api/saved-views.ts';
import { useAction } from '../data/action.ts';
import { call, type Page } from '../data/api.ts';
import { useQuery } from '../data/query.ts';
import { mayAct } from '../data/session.ts';
import { Dialog } from './dialog.tsx';
import { Since } from './time.tsx';

const listed = '/views?limit=1000';
const isShown = signal(false);

export function openViews(): void {
  isShown.value = true;
}

/** For the search. */
export function useViews(): readonly SavedViewView[] {
  return useQuery<Page<SavedViewView>>(listed).data?.items ?? [];
}

export function Views() {
  return isShown.value ? <Shown /> : null;
}

function Shown() {
  const { data, error, reload } = useQuery<Page<SavedViewView>>(listed);
  const close = () => {
    isShown.value = false;
  };
  return (
    <Dialog title="Views" onClose={close}>
      <div class="stack">
        {error && <p class="error">{error.message}</p>}
        {data?.items.length === 0 && <p class="quiet">No view is saved yet.</p>}
        <ul aria-label="Saved views" class="views">
          {data?.items.map((view) => (
            <li key={view.name} class="row">
              <Link href={view.path} onClick={close}>
                {view.name}
              </Link>
              <span class="quiet">
                {view.by}, <Since instant={view.at} />
              </span>
              {mayAct.value && <Remove name={view.name} onDone={reload} />}
            </li>
          ))}
        </ul>
        {mayAct.value && <Save onDone={reload} />}
      </div>
    </Dialog>
  );
}

const pathOf = (name: string) => `/views/${encodeURIComponent(name)}`;

function Remove({ name, onDone }: { name: string; onDone: () => void }) {
  const { isRunning, run } = useAction(async () => {
    await call('DELETE', pathOf(name));
    onDone();
    return null;
  });
  return (
    <button type="button" class="plain" disabled={isRunning} aria-label={`Remove ${name}`} onClick={() => run()}>
      Remove
    </button>
  );
}

function Save({ onDone }: { onDone: () => void }) {
  const [location] = useLocation();
  const search = useSearch();
  const path = search === '' ? location : `${location}?${search}`;
  const { isRunning, run } = useAction(async (name: string) => {
    await call('PUT', pathOf(name), { path });
    onDone();
    return null;
  });
  return (
    <form
      class="stack"
      onSubmit={(event) => {
        event.preventDefault();
        run(String(new FormData(event.currentTarget).get('name') ?? '').trim());
        event.currentTarget.reset();
      }}
    >
      <label>
        Save <code>{path}</code> as
        <input name="name" required maxLength={60} autocomplete="off" data-first />
      </label>
      <p class="row">
        <button type="submit" class="main" disabled={isRunning}>
          Save this view
        </button>
      </p>
    </form>
  );
}
