/**
 * Keyboard shortcuts: `g` and a letter opens a page, `/` focuses the filter, `j` and `k` move through the rows, `?`
 * lists them all.
 */
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Dialog } from './dialog.tsx';

export interface Destination {
  readonly path: string;
  readonly title: string | null;
  /** Shortcut, pressed after `g`. */
  readonly key?: string;
}

const isShown = signal(false);
const goWithinMs = 1_500;

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

/** Moves the focus between elements with `data-row`. */
function moveRow(step: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>('[data-row]')];
  const here = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[here === -1 ? 0 : Math.min(rows.length - 1, Math.max(0, here + step))];
  const target = next?.matches('a, button') ? next : next?.querySelector<HTMLElement>('a, button');
  target?.focus();
}

export function useShortcuts(destinations: readonly Destination[], navigate: (path: string) => void): void {
  useEffect(() => {
    let goUntil = 0;
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const page = destinations.find(({ key }) => key === event.key);
      if (event.timeStamp < goUntil && page) {
        navigate(page.path);
        goUntil = 0;
        return;
      }
      goUntil = event.key === 'g' ? event.timeStamp + goWithinMs : 0;
      if (event.key === '?') isShown.value = true;
      else if (event.key === 'j') moveRow(1);
      else if (event.key === 'k') moveRow(-1);
      else if (event.key === '/') {
        const filter = document.querySelector<HTMLElement>('[data-filter]');
        if (!filter) return;
        filter.focus();
        event.preventDefault();
      }
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, [destinations, navigate]);
}

/** The list of shortcuts, opened by `?`. */
export function Shortcuts({ destinations }: { destinations: readonly Destination[] }) {
  if (!isShown.value) return null;
  const rows = [
    ...destinations.flatMap(({ title, key }) => (title && key ? [[`g ${key}`, title] as const] : [])),
    ['Ctrl K', 'Search'] as const,
    ['↓, ↑', 'Next, previous of what the search found'] as const,
    ['/', 'Filter of this page'] as const,
    ['j, k', 'Next, previous row'] as const,
    ['?', 'This list'] as const,
  ];
  return (
    <Dialog
      title="Keyboard"
      onClose={() => {
        isShown.value = false;
      }}
    >
      <dl class="keys">
        {rows.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
