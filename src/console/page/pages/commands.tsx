/** Page of the eMSPs' commands: running ones live, and ended ones. */
import { Link } from 'wouter-preact';
import type { CommandView } from '../../../api/commands.ts';
import type { Watch } from '../data/actors.ts';
import { pathWith } from '../data/api.ts';
import type { ListOrder } from '../data/loaded.ts';
import { usePagedList } from '../data/paged-list.ts';
import { Badge, shownState } from '../parts/badge.tsx';
import { Choice, fieldOf, InstantField, SettledField, TableCard, useFilters } from '../parts/fields.tsx';
import { Liveness, useReload, useWatch } from '../parts/live.tsx';
import { More } from '../parts/more.tsx';
import { Asked, Dash, Empty } from '../parts/states.tsx';
import { Instant, Until } from '../parts/time.tsx';

const states: readonly CommandView['state'][] = [
  ...(['forwarding', 'awaiting', 'relaying', 'relayed', 'relayFailed', 'rejected', 'silent'] as const),
];
const names: readonly CommandView['command'][] = [
  ...(['START_SESSION', 'STOP_SESSION', 'RESERVE_NOW', 'CANCEL_RESERVATION', 'UNLOCK_CONNECTOR'] as const),
];
const order: ListOrder<CommandView> = {
  idOf: ({ id }) => id,
  placeOf: ({ at, id }) => `${at} ${id}`,
  isDescending: true,
};
const running: ReadonlySet<string> = new Set(['forwarding', 'awaiting', 'relaying']);

export function Commands() {
  const watch = useWatch({ kinds: ['command'] });
  const [filters, change] = useFilters(['party', 'state', 'command', 'session', 'uid', 'from', 'to']);
  const field = fieldOf(filters, change);
  const query = usePagedList<CommandView>(pathWith('/commands', filters), order);
  useReload(watch, query.reload);

  return (
    <>
      <div class="page-head">
        <div class="row">
          <h1>Commands</h1>
          <Liveness watch={watch} />
        </div>
        <div class="filters">
          <SettledField label="Party" placeholder="NL-CPO" {...field('party')} isFirst />
          <Choice
            label="State"
            {...field('state')}
            options={[['', 'all'], ...states.map((state) => [state, shownState(state)] as const)]}
          />
          <Choice
            label="Command"
            {...field('command')}
            options={[['', 'all'], ...names.map((name) => [name, name] as const)]}
          />
          <SettledField label="Session" placeholder="NL-CPO/101" {...field('session')} />
          <SettledField label="Token" placeholder="04A1B2C3D4E5F6" {...field('uid')} />
          <InstantField label="Arrived from" {...field('from')} />
          <InstantField label="Arrived before" {...field('to')} />
        </div>
      </div>
      <Asked query={query} what="the commands">
        {(page) => (
          <>
            <CommandList
              items={page.items}
              watch={watch}
              isFiltered={Object.values(filters).some((value) => value !== '')}
            />
            <More list={query} />
          </>
        )}
      </Asked>
    </>
  );
}

interface CommandListProps {
  readonly items: readonly CommandView[];
  readonly watch: Watch | null;
  readonly isFiltered: boolean;
}

function CommandList({ items, watch, isFiltered }: CommandListProps) {
  if (items.length === 0) {
    return isFiltered ? (
      <Empty title="No commands match" hint="Remove a filter, or search further." />
    ) : (
      <Empty title="No commands yet" hint="Commands that eMSPs send are shown here from the moment they arrive." />
    );
  }
  const columns = ['State', 'Command', 'eMSP', 'CPO', 'Result', 'Waits', 'Session', 'Arrived', 'Id'];
  return (
    <TableCard caption="Commands, newest first" columns={columns}>
      {items.map((command) => (
        <CommandRow key={command.id} command={command} watch={watch} />
      ))}
    </TableCard>
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
        {command.result ?? <Dash />}
        {command.reason && <span class="quiet"> {command.reason}</span>}
      </td>
      <td>{running.has(state) ? <Until instantMs={typeof due === 'number' ? due : null} /> : ''}</td>
      <td class="mono">
        {command.session === null ? (
          <Dash />
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
