/** Fields for the settings of a partner, made of their table: a form for each kind of value, not for each setting. */
import { useId } from 'preact/hooks';
import type { PartyView } from '../../../api/parties.ts';
import {
  hideableModules,
  hoursMax,
  type PartnerChoices,
  type SettingName,
  settingRows,
} from '../../../domain/partner-settings.ts';
import { mayAdminister } from '../data/session.ts';
import { localOf } from '../parts/fields.tsx';
import '../style/settings.css';

type Settings = PartyView['settings'];
type Row = (typeof settingRows)[number][1];

/** Those that the operator may change here. */
const rowsFor = (names: readonly SettingName[]) =>
  settingRows.filter(([name, { role }]) => names.includes(name) && (role !== 'admin' || mayAdminister.value));

interface FieldsProps {
  readonly names: readonly SettingName[];
  readonly settings: Settings;
}

export function SettingFields({ names, settings }: FieldsProps) {
  return (
    <>
      {rowsFor(names).map(([name, row]) => (
        <SettingField key={name} name={name} row={row} value={settings[name]} />
      ))}
    </>
  );
}

interface FieldProps {
  readonly name: SettingName;
  readonly row: Row;
  readonly value: unknown;
}

function SettingField({ name, row, value }: FieldProps) {
  const hint = useId();
  return (
    <div class="setting">
      <Input name={name} row={row} value={value} hint={hint} />
      <p id={hint} class="quiet">
        <code>{name}</code>: {row.means}.
        {row.heals !== undefined && ` For a partner of which this holds: ${row.heals}.`}
      </p>
    </div>
  );
}

function Input({ name, row, value, hint }: FieldProps & { readonly hint: string }) {
  const { label } = row;
  const common = { name, 'aria-describedby': hint };
  switch (row.form) {
    case 'choice':
      return (
        <label>
          {label}
          <select {...common}>
            {row.of.map((word) => (
              <option key={word} value={word} selected={word === value}>
                {word === row.preset ? `${word} (default)` : word}
              </option>
            ))}
          </select>
        </label>
      );
    case 'flag':
      return (
        <label>
          <input {...common} type="checkbox" defaultChecked={value === true} />
          {label}
        </label>
      );
    case 'instant':
      return (
        <label>
          {label}
          <input {...common} type="datetime-local" defaultValue={localMinutes(value)} />
        </label>
      );
    case 'hours':
      return (
        <label>
          {label}
          <input
            {...common}
            type="number"
            min={0}
            max={hoursMax}
            step="any"
            placeholder="as for every CPO"
            defaultValue={value === null ? '' : String(value)}
          />
        </label>
      );
    case 'modules':
      return <Modules name={name} label={label} hint={hint} chosen={value as readonly string[]} />;
    case 'networks':
      return (
        <label>
          {label}
          <textarea
            {...common}
            rows={2}
            spellcheck={false}
            placeholder="any; else one a line, for example 192.0.2.0/24"
            defaultValue={(value as readonly string[]).join('\n')}
          />
        </label>
      );
  }
}

interface ModulesProps {
  readonly name: SettingName;
  readonly label: string;
  readonly hint: string;
  readonly chosen: readonly string[];
}

function Modules({ name, label, hint, chosen }: ModulesProps) {
  return (
    <fieldset aria-describedby={hint}>
      <legend>{label}</legend>
      <div class="row">
        {hideableModules.map((module) => (
          <label key={module}>
            <input type="checkbox" name={name} value={module} defaultChecked={chosen.includes(module)} />
            {module}
          </label>
        ))}
      </div>
    </fieldset>
  );
}

const localMinutes = (instant: unknown): string => localOf((instant as string | null) ?? '', 'minutes');

/** What a form of these fields says that differs from the settings before. */
export function changesIn(form: FormData, { names, settings }: FieldsProps): Partial<PartnerChoices> {
  const changed = rowsFor(names).flatMap(([name, row]) => {
    const value = valueIn(form, name, row, settings[name]);
    return JSON.stringify(value) === JSON.stringify(settings[name]) ? [] : [[name, value]];
  });
  return Object.fromEntries(changed) as Partial<PartnerChoices>;
}

function valueIn(form: FormData, name: SettingName, row: Row, before: unknown): unknown {
  const text = String(form.get(name) ?? '').trim();
  switch (row.form) {
    case 'choice':
      return text;
    case 'flag':
      return form.get(name) === 'on';
    case 'instant':
      // The field shows minutes: what was not touched keeps its seconds.
      if (text === localMinutes(before)) return before;
      return text === '' ? null : new Date(text).toISOString();
    case 'hours':
      return text === '' ? null : Number(text);
    case 'modules':
      return form.getAll(name);
    case 'networks':
      return text.split(/[\s,]+/).filter((network) => network !== '');
  }
}
