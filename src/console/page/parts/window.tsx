/** Rows of a long table, windowed: only those near the visible part of the page are in the document. */
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

interface RowsProps {
  readonly ids: readonly string[];
  /** Height of every row, pixels. */
  readonly rowPx: number;
  readonly children: (id: string, index: number) => ComponentChildren;
}

/** Rows rendered beyond each edge; also how far a scroll goes before other rows are rendered. */
const beyond = 12;

export function Rows({ ids, rowPx, children }: RowsProps) {
  const top = useRef<HTMLTableSectionElement>(null);
  const [[first, last], setSeen] = useState<readonly [number, number]>([0, 60]);

  useLayoutEffect(() => {
    const look = () => {
      const above = top.current?.getBoundingClientRect().top ?? 0;
      const step = (row: number) => Math.floor(row / beyond) * beyond;
      const from = Math.max(0, step(-above / rowPx) - beyond);
      const to = step((window.innerHeight - above) / rowPx) + 2 * beyond;
      setSeen((seen) => (seen[0] === from && seen[1] === to ? seen : [from, to]));
    };
    look();
    addEventListener('scroll', look, { passive: true });
    addEventListener('resize', look, { passive: true });
    return () => {
      removeEventListener('scroll', look);
      removeEventListener('resize', look);
    };
  }, [rowPx]);

  const [from, to] = [Math.min(first, ids.length), Math.min(last, ids.length)];
  return (
    <>
      <tbody ref={top} class="gap" aria-hidden="true">
        <Gap px={from * rowPx} />
      </tbody>
      <tbody>{ids.slice(from, to).map((id, index) => children(id, from + index))}</tbody>
      <tbody class="gap" aria-hidden="true">
        <Gap px={(ids.length - to) * rowPx} />
      </tbody>
    </>
  );
}

/** One cell: one that spans all columns would give width to those that a narrow screen hides. */
function Gap({ px }: { px: number }) {
  if (px <= 0) return null;
  return (
    <tr>
      <td style={{ height: `${px}px`, padding: 0 }} />
    </tr>
  );
}
