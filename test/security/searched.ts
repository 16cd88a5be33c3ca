/**
 * Looks for a secret in whatever form it may have been written down, and gathers what a store holds as its engine hands it out:
 * its files are compressed, so their bytes alone prove nothing.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Level } from 'level';

export interface Secret {
  readonly name: string;
  readonly value: string;
}

export interface Haystack {
  readonly name: string;
  readonly bytes: Buffer;
}

/** The parts of a base64 text that are the same whatever stands before the secret in it. */
function base64Parts(bytes: Buffer, encoding: 'base64' | 'base64url'): string[] {
  return [0, 1, 2].map((shift) => {
    const text = Buffer.concat([Buffer.alloc(shift), bytes])
      .toString(encoding)
      .replace(/=+$/, '');
    const whole = Math.floor(((bytes.length + shift) * 8) / 6);
    return text.slice(Math.ceil((shift * 8) / 6), whole);
  });
}

/** Every form in which it would still be known. */
export function formsOf(value: string): Readonly<Record<string, string>> {
  const bytes = Buffer.from(value);
  const json = JSON.stringify(value).slice(1, -1);
  const parts = (encoding: 'base64' | 'base64url') =>
    base64Parts(bytes, encoding).map((part, shift) => [`${encoding}+${shift}`, part] as const);
  return {
    plain: value,
    ...Object.fromEntries([...parts('base64'), ...parts('base64url')]),
    hex: bytes.toString('hex'),
    HEX: bytes.toString('hex').toUpperCase(),
    url: encodeURIComponent(value),
    json,
    jsonInJson: JSON.stringify(json).slice(1, -1),
    utf16: bytes.toString('latin1').split('').join('\0'),
  };
}

/** `{name} as {form} in {haystack}` of all that is found. */
export function findings(secrets: readonly Secret[], haystacks: readonly Haystack[]): string[] {
  const wanted = secrets.flatMap(({ name, value }) => {
    // Of the forms that are the same text one is enough.
    const forms = new Map(Object.entries(formsOf(value)).map(([form, text]) => [text, form]));
    return [...forms].map(([text, form]) => ({ name, form, needle: Buffer.from(text) }));
  });
  // The ballast of a store, which is zeros alone, is a third of all.
  const said = haystacks.filter(({ bytes }) => !bytes.equals(Buffer.alloc(bytes.length)));
  return said.flatMap((haystack) =>
    wanted
      .filter(({ needle }) => haystack.bytes.includes(needle))
      .map(({ name, form }) => `${name} as ${form} in ${haystack.name}`),
  );
}

/** Every file below a directory, as its bytes lie there. */
export function filesBelow(directory: string): Haystack[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => ({ name: path.slice(directory.length), bytes: readFileSync(path) }));
}

/** Every key and value of each LevelDB below a directory, as the engine gives them. Nobody else may have it open. */
export async function recordsBelow(directory: string): Promise<Haystack[]> {
  const found: Haystack[] = [];
  for (const { name } of filesBelow(directory).filter(({ name: path }) => path.endsWith('/CURRENT'))) {
    const path = join(directory, name.slice(0, -'CURRENT'.length));
    const db = new Level<Buffer, Buffer>(path, {
      keyEncoding: 'buffer',
      valueEncoding: 'buffer',
      createIfMissing: false,
    });
    await db.open();
    const records: Buffer[] = [];
    for await (const [key, value] of db.iterator()) records.push(key, Buffer.from('\n'), value, Buffer.from('\n'));
    await db.close();
    found.push({ name: `the records of ${name}`, bytes: Buffer.concat(records) });
  }
  return found;
}
