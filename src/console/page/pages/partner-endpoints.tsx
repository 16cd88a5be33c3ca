/**
 * Form of the endpoints that operators set: they override discovered ones, which apply again when the override is
 * removed.
 */
import { useState } from 'preact/hooks';
import type { PartyView } from '../../../api/parties.ts';
import { moduleNames } from '../../../domain/modules.ts';
import { useAction } from '../data/action.ts';
import { call } from '../data/api.ts';
import type { DialogOfPartner } from '../parts/card.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Form, Offered } from '../parts/fields.tsx';

interface Draft {
  readonly key: number;
  readonly identifier: string;
  readonly role: 'SENDER' | 'RECEIVER';
  readonly url: string;
}

type Endpoint = Omit<Draft, 'key'>;

const setIn = ({ endpoints }: PartyView): Endpoint[] =>
  endpoints
    .filter(({ source }) => source === 'operator')
    .map(({ identifier, role, url }) => ({ identifier, role, url }));
const nameOf = ({ identifier, role }: Endpoint) => `${role} ${identifier}`;

/** What is set now, with what the form changed since it was opened: another operator may have set others meanwhile. */
function merged(before: readonly Endpoint[], form: readonly Endpoint[], now: readonly Endpoint[]): Endpoint[] {
  const isIn = (all: readonly Endpoint[], one: Endpoint) =>
    all.some((each) => nameOf(each) === nameOf(one) && each.url === one.url);
  const changed = [...form.filter((one) => !isIn(before, one)), ...before.filter((one) => !isIn(form, one))];
  const names = new Set(changed.map(nameOf));
  return [...now.filter((one) => !names.has(nameOf(one))), ...form.filter((one) => names.has(nameOf(one)))];
}

let keys = 0;
const modules = [...moduleNames, 'commands'];

export function EndpointsForm({ party, reload, onClose }: DialogOfPartner) {
  const [before] = useState(() => setIn(party));
  const [drafts, setDrafts] = useState<readonly Draft[]>(() => before.map((one) => ({ key: ++keys, ...one })));
  const change = (key: number, changes: Partial<Draft>) =>
    setDrafts(drafts.map((draft) => (draft.key === key ? { ...draft, ...changes } : draft)));
  const { isRunning, run } = useAction(async () => {
    const form = drafts.map(({ identifier, role, url }) => ({ identifier, role, url }));
    const path = `/parties/${party.id}`;
    const endpoints = merged(before, form, setIn(await call<PartyView>('GET', path)));
    await call('PUT', `${path}/endpoints`, { endpoints });
    reload();
    onClose();
    return endpoints.length === 0 ? 'The discovered endpoints are in force.' : 'The endpoints are set.';
  });
  return (
    <Dialog title={`Endpoints of ${party.id}`} onClose={onClose}>
      <Form class="stack" onSubmit={() => run()}>
        <p class="quiet">What is set here wins over what the partner's versions say, module by module.</p>
        {drafts.map((draft) => (
          <div key={draft.key} class="endpoint">
            <label>
              Module
              <input
                required
                list="endpoint-modules"
                pattern="[A-Za-z0-9_\-]{1,64}"
                value={draft.identifier}
                onInput={({ currentTarget }) => change(draft.key, { identifier: currentTarget.value })}
              />
            </label>
            <label>
              Role
              <select
                value={draft.role}
                onChange={({ currentTarget }) => change(draft.key, { role: currentTarget.value as Draft['role'] })}
              >
                <option value="RECEIVER">receiver</option>
                <option value="SENDER">sender</option>
              </select>
            </label>
            <label class="wide">
              URL
              <input
                required
                type="url"
                value={draft.url}
                onInput={({ currentTarget }) => change(draft.key, { url: currentTarget.value })}
              />
            </label>
            <button
              type="button"
              aria-label={`Remove ${draft.identifier || 'endpoint'}`}
              onClick={() => setDrafts(drafts.filter(({ key }) => key !== draft.key))}
            >
              Remove
            </button>
          </div>
        ))}
        <Offered id="endpoint-modules" values={modules} />
        <div class="row">
          <button
            type="button"
            onClick={() => setDrafts([...drafts, { key: ++keys, identifier: '', role: 'RECEIVER', url: '' }])}
          >
            Add an endpoint
          </button>
          <button type="submit" class="main" disabled={isRunning}>
            Save
          </button>
        </div>
      </Form>
    </Dialog>
  );
}
