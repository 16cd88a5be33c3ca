/**
 * Settings of a partner. A dialog changes them, so that a slip on the page changes nothing.
 */
import { useState } from 'preact/hooks';
import type { PartyView } from '../../../api/parties.ts';
import { useAction } from '../data/action.ts';
import { call } from '../data/api.ts';
import { mayOperate } from '../data/session.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Instant } from '../parts/time.tsx';

interface SettingsProps {
  readonly party: PartyView;
  readonly reload: () => void;
}

export function Settings({ party, reload }: SettingsProps) {
  const [isEdited, setEdited] = useState(false);
  const { token_encoding, identity_mode, compatibility_until, empty_2xx_ok, paused } = party.settings;
  return (
    <section class="card" aria-label="Settings">
      <header>
        <h2>Settings</h2>
        {mayOperate.value && (
          <button type="button" onClick={() => setEdited(true)}>
            Change settings
          </button>
        )}
      </header>
      <dl class="facts inside">
        <dt>Token encoding</dt>
        <dd>{token_encoding === 'auto' ? `auto: ${party.token_sent_as}` : token_encoding}</dd>
        <dt>Identity mode</dt>
        <dd>
          {identity_mode}
          {identity_mode === 'COMPATIBILITY' && (
            <span class="quiet">
              {' '}
              until {compatibility_until ? <Instant value={compatibility_until} /> : 'never set: not active'}
            </span>
          )}
        </dd>
        <dt>Empty 2xx is a success</dt>
        <dd>{empty_2xx_ok ? 'yes' : 'no'}</dd>
        <dt>Deliveries</dt>
        <dd>{paused ? 'paused' : 'flow'}</dd>
      </dl>
      {isEdited && <SettingsForm party={party} reload={reload} onClose={() => setEdited(false)} />}
    </section>
  );
}

function SettingsForm({ party, reload, onClose }: SettingsProps & { onClose: () => void }) {
  const { settings, roles } = party;
  const name = roles[0]?.business_details?.name ?? '';
  const [mode, setMode] = useState(settings.identity_mode);
  const { isRunning, run } = useAction(async (form: FormData) => {
    const text = (field: string) => String(form.get(field) ?? '').trim();
    const until = text('until');
    const called = text('name');
    await call('PATCH', `/parties/${party.id}`, {
      token_encoding: text('encoding'),
      identity_mode: mode,
      compatibility_until: mode === 'COMPATIBILITY' && until !== '' ? new Date(until).toISOString() : null,
      empty_2xx_ok: form.get('empty') === 'on',
      ...(called !== '' && called !== name && { business_details: { name: called } }),
    });
    reload();
    onClose();
    return `Settings of ${party.id} are changed.`;
  });
  return (
    <Dialog title={`Settings of ${party.id}`} onClose={onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          run(new FormData(event.currentTarget));
        }}
      >
        <label>
          Name
          <input name="name" maxLength={100} defaultValue={name} />
        </label>
        <label>
          Token encoding
          <select name="encoding" defaultValue={settings.token_encoding}>
            <option value="auto">auto: what the partner takes</option>
            <option value="base64">base64, as OCPI 2.2.1 says</option>
            <option value="plain">plain, for partners that do not encode</option>
          </select>
        </label>
        <label>
          Identity mode
          <select value={mode} onChange={({ currentTarget }) => setMode(currentTarget.value as typeof mode)}>
            <option value="COMPLIANT">compliant</option>
            <option value="COMPATIBILITY">compatibility, for a while</option>
          </select>
        </label>
        {mode === 'COMPATIBILITY' && (
          <label>
            Compatibility until
            <input
              name="until"
              type="datetime-local"
              required
              defaultValue={settings.compatibility_until ? localInput(settings.compatibility_until) : ''}
            />
          </label>
        )}
        <label>
          <input name="empty" type="checkbox" defaultChecked={settings.empty_2xx_ok} />
          An empty 2xx answer counts as success
        </label>
        <div class="row">
          <button type="submit" class="main" disabled={isRunning}>
            Save settings
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** An instant in the format of `datetime-local`: local time, no zone. */
function localInput(instant: string): string {
  const date = new Date(instant);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
