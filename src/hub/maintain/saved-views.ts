/**
 * Keeps the views that operators saved.
 *
 * SAVED-VIEWS-1  There are at most `viewsMax`: every page of the console reads the whole list.
 */
import type { Put } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';
import type { SavedView, SavedViewEvent, Trace } from '../../domain/events.ts';
import type { Context } from '../kernel/context.ts';
import { rowData, unlisted } from '../kernel/row-codecs.ts';
import type { SavedViewVerbs } from '../ports/operator.ts';

const kind = 'views';
const viewsMax = 200;

export const savedViewStream = (id: string): string => `view:${id}`;

export function savedViewPut(view: SavedView): Put {
  return unlisted({ kind, owner: '', id: view.id }, view);
}

export function savedViews({ store, recorder, ports }: Context): SavedViewVerbs {
  async function all(): Promise<SavedView[]> {
    const found: SavedView[] = [];
    for await (const { data } of store.scan(kind)) found.push(data as SavedView);
    return found;
  }

  async function record(event: SavedViewEvent, put: Put, trace: Trace): Promise<void> {
    const facts = [{ stream: savedViewStream(event.data.id), event, party: null }];
    await recorder.record({ facts, puts: [put], trace });
  }

  return {
    savedViews: all,
    saveView: (name, path, trace) =>
      recorder.inTurn(kind, async () => {
        const known = await all();
        const { id } = known.find((view) => view.name === name) ?? { id: ports.secrets.newId() };
        const others = known.filter((view) => view.id !== id);
        if (others.length >= viewsMax)
          throw new HubError('conflict', { message: `there are ${viewsMax} views already` });
        const view = { id, name, path, by: trace.operator ?? 'operator', at: recorder.instant() };
        await record({ type: 'view.saved', data: view }, savedViewPut(view), trace);
        return view;
      }),
    removeView: (id, trace) =>
      recorder.inTurn(kind, async () => {
        if (!(await rowData<SavedView>(store, { kind, owner: '', id }))) return;
        await record({ type: 'view.removed', data: { id } }, { kind, owner: '', id, gone: true }, trace);
      }),
  };
}
