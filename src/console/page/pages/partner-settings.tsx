/** Settings of a partner. A dialog changes them, so that a slip on the page changes nothing. */
import { Fragment } from 'preact';
import { useState } from 'preact/hooks';
import type { PartyView } from '../../../api/parties.ts';
import { isPreset, type SettingName, settingNames, settingRows } from '../../../domain/partner-settings.ts';
import { useAction } from '../data/action.ts';
import { call } from '../data/api.ts';
import { mayOperate } from '../data/session.ts';
import { Badge } from '../parts/badge.tsx';
import { Card, type DialogOfPartner, type PartnerProps } from '../parts/card.tsx';
import { Copied } from '../parts/copy.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Form } from '../parts/fields.tsx';
import { useReason } from '../parts/reason.tsx';
import { Instant } from '../parts/time.tsx';
import { changesIn, SettingFields } from './setting-fields.tsx';

export function Settings({ party, reload }: PartnerProps) {
  const [isEdited, setEdited] = useState(false);
  return (
    <Card
      title="Settings"
      beside={
        mayOperate.value && (
          <button type="button" onClick={() => setEdited(true)}>
            Change settings
          </button>
        )
      }
    >
      <dl class="facts inside">
        {settingRows.map(([name, { label }]) => (
          <Fragment key={name}>
            <dt>{label}</dt>
            <dd>
              <Value party={party} name={name} /> <Origin party={party} name={name} />
            </dd>
          </Fragment>
        ))}
      </dl>
      {isEdited && <SettingsForm party={party} reload={reload} onClose={() => setEdited(false)} />}
    </Card>
  );
}

interface RowProps {
  readonly party: PartyView;
  readonly name: SettingName;
}

function Value({ party: { settings, token_sent_as }, name }: RowProps) {
  const value = settings[name];
  if (name === 'token_encoding' && value === 'auto') return <>auto: {token_sent_as}</>;
  if (name === 'compatibility_until' && typeof value === 'string') return <Instant value={value} />;
  if (typeof value === 'boolean') return <>{value ? 'yes' : 'no'}</>;
  const text = Array.isArray(value) ? value.join(', ') : value;
  return text === '' || text === null ? <span class="quiet">none</span> : String(text);
}

/** Whether an operator chose the value, or the hub learnt it. */
function Origin({ party: { settings, quirks }, name }: RowProps) {
  const isLearnt = quirks.some(({ setting, source }) => setting === name && source === 'learnt');
  if (isLearnt) return <Badge state="learnt" tone="info" />;
  return isPreset(name, settings[name]) ? null : <Badge state="set here" tone="info" />;
}

interface Changed extends PartyView {
  readonly hub_token?: string;
}

function SettingsForm({ party, reload, onClose }: DialogOfPartner) {
  // As they were when the dialog was opened: what another operator changes meanwhile is not changed back.
  const [{ id, settings, roles }] = useState(party);
  const [issued, setIssued] = useState<string | null>(null);
  const name = roles[0]?.business_details?.name ?? '';
  const reason = useReason();
  const { isRunning, run } = useAction(async (form: FormData) => {
    const called = String(form.get('name') ?? '').trim();
    const changes = {
      ...changesIn(form, { names: settingNames, settings }),
      ...(called !== '' && called !== name && { business_details: { name: called } }),
    };
    if (Object.keys(changes).length === 0) {
      onClose();
      return 'Nothing was changed.';
    }
    const { hub_token } = await call<Changed>('PATCH', reason.given(`/parties/${id}`), changes);
    reload();
    if (hub_token === undefined) onClose();
    else setIssued(hub_token);
    return `Settings of ${id} are changed.`;
  });
  if (issued !== null) {
    return (
      <Dialog title={`Hub token of ${id}`} onClose={onClose}>
        <div class="stack">
          <p>Copy it now: the hub keeps only its digest, and nobody can show it again.</p>
          <Copied label="hub token" text={issued} />
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog title={`Settings of ${id}`} onClose={onClose}>
      <Form class="stack" onSubmit={run}>
        <label>
          Name
          <input name="name" maxLength={100} defaultValue={name} />
        </label>
        <SettingFields names={settingNames} settings={settings} />
        {reason.field}
        <div class="row">
          <button type="submit" class="main" disabled={isRunning}>
            Save settings
          </button>
        </div>
      </Form>
    </Dialog>
  );
}
