/** Form that adds a partner. It shows the mistake of a party beside its field, and sends nothing while there is one. */
import { useId, useState } from 'preact/hooks';
import type { PartyView } from '../../../api/parties.ts';
import { presets, settingNames } from '../../../domain/partner-settings.ts';
import { useAction } from '../data/action.ts';
import { call } from '../data/api.ts';
import { Form } from '../parts/fields.tsx';
import { changesIn, SettingFields } from './setting-fields.tsx';

/** The hub's answer to adding a partner. Only this page still has the token: the hub keeps a digest. */
export interface Added extends Tokens {
  readonly party: PartyView;
}

/** A partner that is pull only has a hub token at once, any other an initial token. */
interface Tokens {
  readonly initial_token?: string | undefined;
  readonly hub_token?: string | undefined;
}

interface Draft {
  readonly key: number;
  readonly isCpo: boolean;
  readonly isEmsp: boolean;
  readonly country: string;
  readonly party: string;
  readonly name: string;
}

interface FormProps {
  /** Party ids in use. */
  readonly taken: ReadonlySet<string>;
  readonly onAdded: (added: Added) => void;
}

let keys = 0;
const blank = (): Draft => ({ key: ++keys, isCpo: false, isEmsp: false, country: '', party: '', name: '' });
const idOf = ({ country, party }: Draft) => `${country}-${party}`.toUpperCase();

/** The mistake of each field; null for a valid one. */
function mistakesOf(draft: Draft, all: readonly Draft[], taken: ReadonlySet<string>) {
  const isTwice = all.some((other) => other.key !== draft.key && idOf(other) === idOf(draft));
  return {
    roles: draft.isCpo || draft.isEmsp ? null : 'Choose at least one role.',
    country: /^[A-Za-z]{2}$/.test(draft.country) ? null : 'Two letters, for example NL.',
    party: !/^[A-Za-z0-9]{1,3}$/.test(draft.party)
      ? 'One to three letters or digits, for example TNM.'
      : taken.has(idOf(draft))
        ? `${idOf(draft)} exists already.`
        : isTwice
          ? `${idOf(draft)} is listed twice.`
          : null,
    name: draft.name.trim() === '' ? 'How people call it.' : null,
  };
}

export function PartnerForm({ taken, onAdded }: FormProps) {
  const [drafts, setDrafts] = useState<readonly Draft[]>(() => [blank()]);
  const [isTried, setTried] = useState(false);
  const change = (key: number, changes: Partial<Draft>) =>
    setDrafts(drafts.map((draft) => (draft.key === key ? { ...draft, ...changes } : draft)));
  const { isRunning, run } = useAction(async (form: FormData) => {
    const { initial_token, hub_token, ...party } = await call<PartyView & Tokens>('POST', '/parties', {
      roles: drafts.flatMap(rolesOf),
      ...changesIn(form, { names: settingNames, settings: presets }),
    });
    onAdded({ party, initial_token, hub_token });
    return `${party.id} is added.`;
  });
  const isWell = drafts.every((draft) => Object.values(mistakesOf(draft, drafts, taken)).every((one) => one === null));
  return (
    <Form
      class="card"
      noValidate
      aria-label="New partner"
      onSubmit={(form) => {
        setTried(true);
        if (isWell) run(form);
        else requestAnimationFrame(() => document.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus());
      }}
    >
      <header>
        <h2>1 · Who is it?</h2>
      </header>
      <div class="inside stack">
        {drafts.map((draft, index) => (
          <PartyFields
            key={draft.key}
            draft={draft}
            title={index === 0 ? 'Party' : `Party ${index + 1}`}
            mistakes={mistakesOf(draft, drafts, taken)}
            isTried={isTried}
            onChange={(changes) => change(draft.key, changes)}
            onRemove={index === 0 ? null : () => setDrafts(drafts.filter(({ key }) => key !== draft.key))}
          />
        ))}
        <button type="button" class="another" onClick={() => setDrafts([...drafts, blank()])}>
          Add another party of the same platform
        </button>
        <details>
          <summary>Options</summary>
          <div class="stack options">
            <SettingFields names={settingNames} settings={presets} />
          </div>
        </details>
        <div class="row">
          <button type="submit" class="main" disabled={isRunning}>
            Add the partner
          </button>
        </div>
      </div>
    </Form>
  );
}

function rolesOf({ isCpo, isEmsp, country, party, name }: Draft) {
  const common = {
    country_code: country.toUpperCase(),
    party_id: party.toUpperCase(),
    business_details: { name: name.trim() },
  };
  return [...(isCpo ? [{ role: 'CPO', ...common }] : []), ...(isEmsp ? [{ role: 'EMSP', ...common }] : [])];
}

interface PartyFieldsProps {
  readonly draft: Draft;
  readonly title: string;
  readonly mistakes: ReturnType<typeof mistakesOf>;
  /** Whether the operator has tried to submit: before that, an empty field is no mistake. */
  readonly isTried: boolean;
  readonly onChange: (changes: Partial<Draft>) => void;
  readonly onRemove: (() => void) | null;
}

const ids = [
  ['country', 'Country', 2],
  ['party', 'Party id', 3],
] as const;

function PartyFields({ draft, title, mistakes, isTried, onChange, onRemove }: PartyFieldsProps) {
  return (
    <fieldset>
      <legend>{title}</legend>
      <div class="row">
        <label>
          <input
            type="checkbox"
            checked={draft.isCpo}
            aria-invalid={isTried && mistakes.roles !== null}
            onChange={({ currentTarget }) => onChange({ isCpo: currentTarget.checked })}
          />
          CPO: has charge points
        </label>
        <label>
          <input
            type="checkbox"
            checked={draft.isEmsp}
            onChange={({ currentTarget }) => onChange({ isEmsp: currentTarget.checked })}
          />
          eMSP: has drivers
        </label>
        {onRemove && (
          <button type="button" class="end" onClick={onRemove}>
            Remove {title.toLowerCase()}
          </button>
        )}
      </div>
      {isTried && mistakes.roles && <p class="mistake">{mistakes.roles}</p>}
      <div class="names">
        {ids.map(([name, label, max]) => (
          <Field
            key={name}
            label={label}
            value={draft[name]}
            max={max}
            mistake={draft[name] !== '' || isTried ? mistakes[name] : null}
            onInput={(text) => onChange({ [name]: text.toUpperCase() })}
          />
        ))}
        <Field
          label="Name"
          value={draft.name}
          max={100}
          mistake={isTried ? mistakes.name : null}
          onInput={(name) => onChange({ name })}
        />
      </div>
    </fieldset>
  );
}

interface FieldProps {
  readonly label: string;
  readonly value: string;
  readonly max: number;
  readonly mistake: string | null;
  readonly onInput: (value: string) => void;
}

function Field({ label, value, max, mistake, onInput }: FieldProps) {
  const id = useId();
  return (
    <div class="field">
      <label>
        {label}
        <input
          value={value}
          maxLength={max}
          autocomplete="off"
          spellcheck={false}
          aria-invalid={mistake !== null}
          aria-describedby={mistake ? id : undefined}
          onInput={({ currentTarget }) => onInput(currentTarget.value)}
        />
      </label>
      {mistake && (
        <p id={id} class="mistake">
          {mistake}
        </p>
      )}
    </div>
  );
}
