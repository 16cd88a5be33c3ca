/** `ocpi-hub parties set`: changes the settings of a partner, or lists all that there are. */
import type { Command } from 'commander';
import type { PartyView } from '../api/parties.ts';
import { type SettingName, settingRows } from '../domain/partner-settings.ts';
import { Failure } from './client.ts';
import { partyPath } from './complete.ts';
import { type Column, table } from './table.ts';
import { verb } from './verb.ts';

type Row = (typeof settingRows)[number][1];

type Shown = PartyView & { hub_token?: string };

interface Line {
  readonly name: SettingName;
  readonly value: string;
  readonly row: Row;
}

const columns: readonly Column<Line>[] = [
  { title: 'setting', of: ({ name }) => name },
  { title: 'value', of: ({ value }) => value },
  { title: 'one of', of: ({ row }) => formOf(row), shrinksTo: 12 },
  { title: 'meaning', of: ({ row }) => row.means, shrinksTo: 24 },
];

export function setVerb(): Command {
  return verb<{ name?: string }>({
    usage: 'set <id> [setting=value...]',
    summary: 'change settings of a partner; without any, list them with their meaning',
    options: [['--name <name>', 'its business name, until its next PUT of credentials names another']],
    examples: [
      'parties set NL-CPO',
      'parties set NL-CPO patch_without_last_updated=accept link_prev=false',
      'parties set NL-EMS hidden_modules=tariffs,hubclientinfo',
      'parties set NL-EMS hidden_modules=default',
      'parties set NL-EMS --name "Example Mobility"',
    ],
    run: async ({ hub, screen }, [given = '', ...changes], { name }) => {
      const chosen = Object.fromEntries(changes.map(changeOf));
      const path = await partyPath(hub, given);
      const named = name !== undefined && { business_details: renamed(await hub.get<Shown>(path), name) };
      const body = { ...named, ...chosen };
      const isAsked = Object.keys(body).length === 0;
      const party = isAsked ? await hub.get<Shown>(path) : await hub.send<Shown>('PATCH', path, body);
      screen.answer(party, ({ id, settings, hub_token }, page) => {
        const lines = settingRows.map(([name, row]) => ({ name, row, value: settingText(settings[name]) }));
        const issued =
          hub_token === undefined ? [] : [`hub token of ${id}, shown only once:`, '', `  ${hub_token}`, ''];
        return [...issued, ...table(columns, lines, page)];
      });
    },
  });
}

/** The hub gives all parties of a partner the same details: what one of them has alone would be lost. */
function renamed({ id, roles }: Shown, name: string): object {
  const details = new Map(roles.flatMap(({ business_details: its }) => (its ? [[JSON.stringify(its), its]] : [])));
  const [only] = details.values();
  if (details.size < 2) return { ...only, name };
  const names = [...details.values()].map((its) => its.name).join(', ');
  throw new Failure(
    `nothing was changed: parties of ${id} have business details of their own (${names}), which one name for all would replace; its next PUT of credentials can rename one`,
  );
}

/** A value as it is set. */
export const settingText = (value: PartyView['settings'][SettingName]): string => String(value ?? '') || 'none';

function formOf(row: Row): string {
  if (row.form === 'choice') return row.of.join(', ');
  if (row.form === 'flag') return 'true, false';
  if (row.form === 'hours') return 'hours, none';
  return row.form === 'instant' ? 'RFC 3339, none' : 'a,b,c or none';
}

/** Refuses an unknown name here; the hub judges the value. */
function changeOf(text: string): readonly [SettingName, unknown] {
  const at = text.indexOf('=');
  const found = settingRows.find(([name]) => name === text.slice(0, at));
  if (!found) {
    const names = settingRows.map(([name]) => name).join(', ');
    throw new Failure(`"${text}": expected setting=value; settings are ${names}`, { exitCode: 2 });
  }
  const [name, row] = found;
  return [name, readValue(row, text.slice(at + 1))];
}

/** A text that is no number is left to the hub, which says what it expects. */
const hoursOf = (text: string): number | string => (Number.isNaN(Number(text)) ? text : Number(text));

function readValue(row: Row, text: string): unknown {
  if (text === 'default') return row.preset;
  if (row.form === 'flag') return text === 'true' || (text === 'false' ? false : text);
  if (row.form === 'choice') return text;
  const isNone = text === '' || text === 'none';
  if (row.form === 'instant') return isNone ? null : text;
  if (row.form === 'hours') return isNone ? null : hoursOf(text);
  return isNone ? [] : text.split(',');
}
