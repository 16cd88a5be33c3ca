/**
 * Page of the eMSPs' commands: running ones live, and ended ones.
 */
import { Link } from 'wouter-preact';
import type { CommandView } from '../../../api/commands.ts';
import type { Watch } from '../data/actors.ts';
import { type Page, pathWith } from '../data/api.ts';
import { useQuery } from '../data/query.ts';
import { Badge } from '../parts/badge.tsx';
import { Choice, Table, useFilters } from '../parts/fields.tsx';
import { Liveness, useReload, useWatch } from '../parts/live.tsx';
import { SettledField } from '../parts/settled.tsx';
import { Asked, Empty, Rest } from '../parts/states.tsx';
import { Instant, Until } from '../parts/time.tsx';

const shownMax = 200;
const states: readonly CommandView['state'][] = ['forwarding', 'awaiting', 'relaying', 'relayed', 'rejected', 'silent'];
const running: ReadonlySet<string> = new Set(['forwarding', 'awaiting', 'relaying']);

export function Commands() {
  const watch = useWatch({ kinds: ['command'] });
  const [filters, change] = useFilters(['party', 'state']);
  const query = useQuery<Page<CommandView>>(pathWith('/commands', { ...filters, limit: shownMax }), 5_000);
  useReload(watch, query.reload);

  return (
    <>
      <div class="page-head">
        <div class="row">
          <h1>Commands</h1>
          <Liveness watch={watch} />
        </div>
        <div class="filters">
          <SettledField
            label="Party"
            placeholder="NL-CPO"
            value={filters.party}
            onSettled={(party) => change({ party })}
            isFirst
          />
          <Choice
            label="State"
            value={filters.state}
            options={[['', 'all'], ...states.map((state) => [state, state] as const)]}
            onChange={(state) => change({ state })}
          />
        </div>
      </div>
      <Asked query={query} what="the commands">
        {(page) => (
          <>
            <CommandList items={page.items} watch={watch} />
            <Rest page={page} which="newest" hint="older ones were not searched" />
          </>
        )}
      </Asked>
    </>
  );
}

function CommandList({ items, watch }: { items: readonly CommandView[]; watch: Watch | null }) {
  if (items.length === 0) {
    return <Empty title="No command" hint="Commands that eMSPs send are shown here from the moment they arrive." />;
  }
  const columns = ['State', 'Command', 'eMSP', 'CPO', 'Result', 'Waits', 'Session', 'Arrived', 'Id'];
  return (
    <div class="card">
      <Table caption="Commands, newest first" columns={columns}>
        {items.map((command) => (
          <CommandRow key={command.id} command={command} watch={watch} />
        ))}
      </Table>
    </div>
  );
}

function CommandRow({ command, watch }: { command: CommandView; watch: Watch | null }) {
  const actor = running.has(command.state) ? watch?.actor(`command:${command.id}`).value : null;
  const value = actor?.snapshot.value;
  const state = typeof value === 'string' ? value : command.state;
  const due = actor?.snapshot.context.due;
  return (
    <tr data-row>
      <td>
        <Badge state={state} />
      </td>
      <td>{command.command}</td>
      <td class="mono">{command.emsp}</td>
      <td class="mono">{command.cpo}</td>
      <td>
        {command.result ?? <span class="quiet">–</span>}
        {command.reason && <span class="quiet"> {command.reason}</span>}
      </td>
      <td>{running.has(state) ? <Until instantMs={typeof due === 'number' ? due : null} /> : ''}</td>
      <td class="mono">
        {command.session === null ? (
          <span class="quiet">–</span>
        ) : (
          <Link href={pathWith('/trace', { key: `${command.cpo}/${command.session}` })}>{command.session}</Link>
        )}
      </td>
      <td>
        <Instant value={command.at} />
      </td>
      <td class="mono">
        <Link href={pathWith('/trace', { key: command.id })}>{command.id}</Link>
      </td>
    </tr>
  );
}
