/**
 * Parties and roles of a partner. A dialog adds one and removes some; the hub refuses to remove what something depends on. [D12]
 */
import { useState } from 'preact/hooks';
import type { PartyView } from '../../../api/parties.ts';
import { useAction } from '../data/action.ts';
import { call } from '../data/api.ts';
import { mayAdminister } from '../data/session.ts';
import { Badge } from '../parts/badge.tsx';
import { Card, type DialogOfPartner, type PartnerProps } from '../parts/card.tsx';
import { Answers, Dialog } from '../parts/dialog.tsx';
import { Form, Table } from '../parts/fields.tsx';
import { useReason } from '../parts/reason.tsx';

type Role = PartyView['roles'][number];

const shown = (role: Role['role']) => (role === 'EMSP' ? 'eMSP' : role);
const nameOf = ({ role, country_code, party_id }: Role) => `${shown(role)} ${country_code}-${party_id}`;

export function Roles({ party, reload }: PartnerProps) {
  const [isEdited, setEdited] = useState(false);
  return (
    <Card
      title="Parties"
      beside={
        mayAdminister.value && (
          <button type="button" onClick={() => setEdited(true)}>
            Change roles
          </button>
        )
      }
    >
      <Table caption="Roles" columns={['Party', 'Role', 'Name']}>
        {party.roles.map((role) => (
          <tr key={nameOf(role)}>
            <td class="mono">
              {role.country_code}-{role.party_id}
            </td>
            <td>
              {shown(role.role)} {role.left_out && <Badge state="not in its credentials" tone="info" />}
            </td>
            <td>{role.business_details?.name}</td>
          </tr>
        ))}
      </Table>
      {isEdited && <RolesForm party={party} reload={reload} onClose={() => setEdited(false)} />}
    </Card>
  );
}

function RolesForm({ party, reload, onClose }: DialogOfPartner) {
  const [{ id, roles: before }] = useState(party);
  const reason = useReason();
  const { isRunning, run } = useAction(async (form: FormData) => {
    const gone = new Set(before.map(nameOf).filter((name) => form.get(name) === null));
    // Another operator may have added others meanwhile.
    const { roles: now } = await call<PartyView>('GET', `/parties/${id}`);
    // Details that are not given stay: a partner may have sent others than PUT takes.
    const stay = now
      .filter((one) => !gone.has(nameOf(one)))
      .map(({ role, country_code, party_id }) => ({ role, country_code, party_id }));
    const roles = [...stay, ...addedIn(form)];
    await call('PUT', reason.given(`/parties/${id}/roles`), { roles });
    reload();
    onClose();
    return `Roles of ${id} are set. Its next PUT of credentials has to name those that are new.`;
  });
  return (
    <Dialog title={`Roles of ${id}`} onClose={onClose}>
      <Form class="stack" onSubmit={run}>
        <fieldset>
          <legend>Roles that stay</legend>
          {before.map((role) => (
            <label key={nameOf(role)} class="row">
              <input type="checkbox" name={nameOf(role)} defaultChecked />
              {nameOf(role)}
            </label>
          ))}
        </fieldset>
        <fieldset>
          <legend>Another role, or none</legend>
          <div class="stack">
            <label>
              Role
              <select name="role">
                <option value="">none</option>
                <option value="CPO">CPO</option>
                <option value="EMSP">eMSP</option>
              </select>
            </label>
            <label>
              Party
              <input
                name="party"
                defaultValue={id}
                pattern="[A-Za-z]{2}-[A-Za-z0-9]{1,3}"
                required
                autocomplete="off"
              />
            </label>
            <label>
              Name
              <input name="name" maxLength={100} autocomplete="off" />
            </label>
          </div>
        </fieldset>
        {reason.field}
        <Answers label="Save roles" isDisabled={isRunning} onNo={onClose} />
      </Form>
    </Dialog>
  );
}

function addedIn(form: FormData): object[] {
  const role = String(form.get('role'));
  const [country_code, party_id] = String(form.get('party')).toUpperCase().split('-');
  const name = String(form.get('name')).trim();
  return role === '' ? [] : [{ role, country_code, party_id, ...(name !== '' && { business_details: { name } }) }];
}
