/** A small plot of a rate. Hidden from screen readers, because the number beside it says the same. */

const width = 72;
const height = 16;

export function Sparkline({ values }: { values: readonly number[] }) {
  const max = Math.max(...values, 0);
  if (max === 0) return <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} aria-hidden="true" />;
  const step = width / Math.max(1, values.length - 1);
  const points = values.map((value, at) => {
    return `${(at * step).toFixed(1)} ${(height - 1 - (value / max) * (height - 2)).toFixed(1)}`;
  });
  return (
    <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
      <path class="under" d={`M0 ${height}L${points.join('L')}L${width} ${height}Z`} />
      <path class="over" d={`M${points.join('L')}`} />
    </svg>
  );
}
