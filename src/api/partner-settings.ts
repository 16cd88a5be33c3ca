/** Schemas of the settings of a partner, made of their table. */
import * as z from 'zod';
import {
  hideableModules,
  hoursMax,
  type PartnerChoices,
  type SettingName,
  settingRows,
} from '../domain/partner-settings.ts';
import { instant, network } from './common.ts';

type Row = (typeof settingRows)[number][1];

function schemaOf(row: Row): z.ZodType {
  switch (row.form) {
    case 'choice':
      return z.enum([...row.of]);
    case 'flag':
      return z.boolean();
    case 'instant':
      return instant.nullable();
    case 'hours':
      return z.number().min(0).max(hoursMax).nullable();
    case 'modules':
      return z.array(z.enum(hideableModules)).max(hideableModules.length);
    case 'networks':
      return z.array(network).max(100);
  }
}

const describedBy = (row: Row) =>
  schemaOf(row).describe(row.heals === undefined ? row.means : `${row.means} (heals: ${row.heals})`);

type Inputs = { [Name in SettingName]: z.ZodExactOptional<z.ZodType<PartnerChoices[Name]>> };

/** Fields of a request that sets some of them. */
export const settingInputs = Object.fromEntries(
  settingRows.map(([name, row]) => [name, describedBy(row).exactOptional()]),
) as unknown as Inputs;

type Outputs = { [Name in SettingName]: z.ZodType<PartnerChoices[Name]> };

/** Fields of an answer that shows them all. */
export const settingOutputs = Object.fromEntries(
  settingRows.map(([name, row]) => [name, describedBy(row)]),
) as unknown as Outputs;
