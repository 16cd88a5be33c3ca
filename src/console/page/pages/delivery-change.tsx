/**
 * What a delivery changes for its receiver, as a line diff: the object as the receiver has it against the object after
 * the delivery.
 */
import { useEffect, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { DeliveryChange, DeliveryDetailView } from '../../../api/deliveries.ts';
import { count } from '../data/format.ts';
import { laidOut } from '../data/request-text.ts';
import { Instant } from '../parts/time.tsx';

interface Hunk {
  readonly oldStart: number;
  readonly newStart: number;
  /** Each begins with ` `, `+` or `-`. */
  readonly lines: readonly string[];
}

/**
 * Time limit of the diff, milliseconds: two very different texts would block the page for longer; they are shown
 * without a diff.
 */
const diffLimitMs = 1_500;

export function ChangeShown({ delivery: { change, receiver, method } }: { delivery: DeliveryDetailView }) {
  return (
    <section class="card" aria-labelledby="change">
      <header>
        <h2 id="change">What it changes for {receiver}</h2>
        {change && <Basis change={change} receiver={receiver} />}
      </header>
      {change ? (
        <Compared before={change.before?.body ?? ''} after={change.after ?? ''} isFirst={change.before === null} />
      ) : (
        <p class="inside quiet">
          The log does not tell what the object was before: its beginning is not kept, or it was changed too often. What
          was sent by {method} stands below.
        </p>
      )}
    </section>
  );
}

function Basis({ change: { before }, receiver }: { change: DeliveryChange; receiver: string }) {
  if (before === null) return <span class="quiet">first delivery of this object</span>;
  return (
    <span class="quiet">
      since <Link href={`/deliveries/${encodeURIComponent(`${before.seq}-${receiver}`)}`}>{before.seq}</Link>, accepted{' '}
      <Instant value={before.at} />
    </span>
  );
}

function Compared({ before, after, isFirst }: { before: string; after: string; isFirst: boolean }) {
  const hunks = useHunks(before, after);
  if (hunks === 'comparing') return <p class="loading">Comparing …</p>;
  if (hunks === 'tooUnlike') return <pre class="body">{laidOut(after)}</pre>;
  if (hunks.length === 0) {
    return (
      <p class="inside quiet">{isFirst ? 'Nothing: the object was gone already.' : 'Nothing: it has this already.'}</p>
    );
  }
  const lines = hunks.flatMap(({ lines }) => lines);
  const [added, removed] = ['+', '-'].map((sign) => lines.filter((line) => line.startsWith(sign)).length);
  return (
    <>
      <p class="inside quiet">
        {count(added ?? 0)} {added === 1 ? 'line' : 'lines'} added, {count(removed ?? 0)} removed
      </p>
      <section class="diff mono" aria-label="Difference">
        {hunks.map((hunk) => (
          <HunkShown key={`${hunk.oldStart}/${hunk.newStart}`} hunk={hunk} />
        ))}
      </section>
    </>
  );
}

function HunkShown({ hunk: { lines } }: { hunk: Hunk }) {
  return (
    <div class="hunk">
      {lines.map((line, index) => {
        const text = line.slice(1);
        if (line.startsWith('+')) return <ins key={index}>{text}</ins>;
        if (line.startsWith('-')) return <del key={index}>{text}</del>;
        return <span key={index}>{text}</span>;
      })}
    </div>
  );
}

/** Loads the diff library on first use. */
function useHunks(before: string, after: string): readonly Hunk[] | 'comparing' | 'tooUnlike' {
  const [hunks, setHunks] = useState<readonly Hunk[] | 'comparing' | 'tooUnlike'>('comparing');
  useEffect(() => {
    let isWanted = true;
    void import('diff').then(({ structuredPatch }) => {
      const [from, to] = [before, after].map((text) => (text === '' ? '' : `${laidOut(text)}\n`));
      const patch = structuredPatch('', '', from ?? '', to ?? '', undefined, undefined, {
        context: 3,
        timeout: diffLimitMs,
      });
      if (isWanted) setHunks(patch?.hunks ?? 'tooUnlike');
    });
    return () => {
      isWanted = false;
    };
  }, [before, after]);
  return hunks;
}
