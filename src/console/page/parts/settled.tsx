/** Debounced fields for filters that the hub applies, so that a half-typed id causes no request. */
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { FilterProps, TextFilterProps } from './fields.tsx';

const settleMs = 450;

/** Of a whole party id. */
export const partyPattern = { test: /^[A-Za-z]{2}-[A-Za-z0-9]{1,3}$/, hint: 'Country and party, for example NL-EMS' };

interface SettledFieldProps extends TextFilterProps {
  /** Suggestions while typing. */
  readonly options?: readonly string[];
  /** What a value must match to be sent, and the hint for one that does not. */
  readonly pattern?: { readonly test: RegExp; readonly hint: string };
}

export function SettledField(props: SettledFieldProps) {
  const { label, value, onChange, placeholder, options = [], pattern, isFirst = false } = props;
  const [draft, setDraft] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout>>();
  useEffect(() => setDraft(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const hint = useId();
  const list = `${label.toLowerCase().replaceAll(' ', '-')}-offered`;
  const isWrong = draft !== '' && pattern?.test.test(draft) === false;

  const settle = (text: string) => {
    clearTimeout(timer.current);
    const wanted = text.trim();
    if (wanted !== value && (wanted === '' || pattern?.test.test(wanted) !== false)) onChange(wanted);
  };
  return (
    <div class="settled">
      <label>
        {label}
        <input
          type="search"
          value={draft}
          placeholder={placeholder}
          spellcheck={false}
          autocomplete="off"
          list={options.length > 0 ? list : undefined}
          aria-invalid={isWrong}
          aria-describedby={isWrong ? hint : undefined}
          onInput={({ currentTarget }) => {
            const text = currentTarget.value;
            setDraft(text);
            clearTimeout(timer.current);
            timer.current = setTimeout(() => settle(text), settleMs);
          }}
          onKeyDown={({ key, currentTarget }) => key === 'Enter' && settle(currentTarget.value)}
          onBlur={({ currentTarget }) => settle(currentTarget.value)}
          {...(isFirst && { 'data-filter': true })}
        />
        {options.length > 0 && <Offered id={list} values={options} />}
      </label>
      <p id={hint} class="hint">
        {isWrong && pattern?.hint}
      </p>
    </div>
  );
}

/** What the fields that name it by `list` offer while something is typed. */
export function Offered({ id, values }: { id: string; values: readonly string[] }) {
  return (
    <datalist id={id}>
      {values.map((value) => (
        <option key={value} value={value} />
      ))}
    </datalist>
  );
}

/** `value`: RFC 3339, or empty. Shown in local time, stored in UTC: an address means the same instant in every time zone. */
export function InstantField({ label, value, onChange }: FilterProps) {
  return (
    <label>
      {label}
      <input
        type="datetime-local"
        step="1"
        value={localOf(value, 'seconds')}
        onChange={({ currentTarget }) => onChange(currentTarget.value && new Date(currentTarget.value).toISOString())}
      />
    </label>
  );
}

/** An instant in the format of `datetime-local`: local time, no zone; empty for none. */
export function localOf(instant: string, to: 'minutes' | 'seconds'): string {
  const date = new Date(instant);
  if (instant === '' || Number.isNaN(date.getTime())) return '';
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, to === 'minutes' ? 16 : 19);
}
