/** Saved views: a dialog that lists them, and saves the present address under a name. */
import { signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { Link, useLocation, useSearchParams } from 'wouter-preact';
import type { SavedViewView } from '../../../api/operators.ts';
import { useAction } from '../data/action.ts';
import { call, type Page } from '../data/api.ts';
import { useQuery } from '../data/query.ts';
import { mayAct } from '../data/session.ts';
import { Dialog } from './dialog.tsx';
import { Form } from './fields.tsx';
import { useReason } from './reason.tsx';
import { Since } from './time.tsx';

const listed = '/views?limit=1000';
const isShown = signal(false);

export function openViews(): void {
  isShown.value = true;
}

/** Whether the address lacks what is hidden from viewers: it leads nowhere. */
const isMasked = ({ path }: SavedViewView) => path.includes('…');

/** For the search: those that lead somewhere. */
export function useViews(): readonly SavedViewView[] {
  return useQuery<Page<SavedViewView>>(listed).data?.items.filter((view) => !isMasked(view)) ?? [];
}

export function Views() {
  return isShown.value ? <Shown /> : null;
}

function Shown() {
  const { data, error, reload } = useQuery<Page<SavedViewView>>(listed);
  const reason = useReason();
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
              {isMasked(view) ? (
                <span>{view.name} (its address is hidden from viewers)</span>
              ) : (
                <Link href={view.path} onClick={close}>
                  {view.name}
                </Link>
              )}
              <span class="quiet">
                {view.by}, <Since instant={view.at} />
              </span>
              {mayAct.value && <Remove view={view} given={reason.given} onDone={reload} />}
            </li>
          ))}
        </ul>
        {mayAct.value && <Save given={reason.given} onDone={reload} />}
        {mayAct.value && reason.field}
      </div>
    </Dialog>
  );
}

interface ActProps {
  /** Adds the reason to a path. */
  readonly given: (path: string) => string;
  readonly onDone: () => void;
}

function Remove({ view: { id, name }, given, onDone }: ActProps & { view: SavedViewView }) {
  const { isRunning, run } = useAction(async () => {
    await call('DELETE', given(`/views/${encodeURIComponent(id)}`));
    onDone();
    return null;
  });
  return (
    <button type="button" class="plain" disabled={isRunning} aria-label={`Remove ${name}`} onClick={() => run()}>
      Remove
    </button>
  );
}

/** What an address shows that is of one moment: a running job and its size. */
const momentary = ['job', 'of'];

function Save({ given, onDone }: ActProps) {
  const [location] = useLocation();
  const [search] = useSearchParams();
  const [name, setName] = useState('');
  const kept = new URLSearchParams([...search].filter(([key]) => !momentary.includes(key))).toString();
  const path = kept === '' ? location : `${location}?${kept}`;
  const { isRunning, run } = useAction(async () => {
    await call('POST', given('/views'), { name, path });
    setName('');
    onDone();
    return null;
  });
  return (
    <Form class="stack" onSubmit={() => run()}>
      <p>
        This view: <code>{path}</code>
      </p>
      <label>
        Save it as
        <input
          value={name}
          required
          maxLength={60}
          autocomplete="off"
          data-first
          onInput={({ currentTarget }) => setName(currentTarget.value)}
        />
      </label>
      <p class="row">
        <button type="submit" class="main" disabled={isRunning}>
          Save this view
        </button>
      </p>
    </Form>
  );
}
