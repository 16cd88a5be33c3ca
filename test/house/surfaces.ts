/**
 * The public surfaces on which users rely by name: admin API, command line, metrics, fields of log lines, event types.
 * Each is one text in `surfaces/`, so that a review shows every change.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import ts from 'typescript';

export const surfacesDir = resolve('test/house/surfaces');

/** Help text of every command and subcommand, under its full name. */
export async function helpOfCommands(): Promise<string> {
  const program = readFileSync('src/cli/program.ts', 'utf8');
  const texts: string[] = [];
  for (const [, file = ''] of program.matchAll(/=> import\('\.\/([\w-]+)\.ts'\)/g)) {
    const module = (await import(new URL(`../../src/cli/${file}.js`, import.meta.url).href)) as { command(): Command };
    collectHelp(module.command(), '', texts);
  }
  return texts.join('\n');
}

function collectHelp(command: Command, parent: string, texts: string[]): void {
  const name = `${parent} ${command.name()}`.trim();
  command.configureHelp({ helpWidth: 120 });
  texts.push(`=== ${name}\n${command.helpInformation()}`);
  for (const child of command.commands) collectHelp(child as Command, name, texts);
}

/** Names and types of the metrics in a Prometheus text exposition. */
export function metricNames(exposition: string): string {
  const lines = [...exposition.matchAll(/^# TYPE (.*)$/gm)].map(([, line = '']) => line);
  return text(lines);
}

const levels = new Set(['debug', 'info', 'warn', 'error', 'fatal']);

/** Field names of log lines, from every log call whose fields are an object literal. */
export function logFields(): string {
  const names: string[] = [];
  for (const path of sourcesBelow('src', 'machines', 'storage')) {
    const visit = (node: ts.Node): void => {
      if (ts.isCallExpression(node) && isLogCall(node.expression)) {
        const [fields] = node.arguments;
        if (fields && ts.isObjectLiteralExpression(fields)) names.push(...fields.properties.flatMap(nameOf));
      }
      ts.forEachChild(node, visit);
    };
    visit(ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest));
  }
  return text(names);
}

function isLogCall(callee: ts.Expression): boolean {
  const isLevel = ts.isPropertyAccessExpression(callee) && levels.has(callee.name.text);
  if (!isLevel && !ts.isElementAccessExpression(callee)) return false;
  const { expression: of } = callee;
  const name = ts.isIdentifier(of) ? of.text : ts.isPropertyAccessExpression(of) ? of.name.text : '';
  return /^#?log$/.test(name);
}

function nameOf(property: ts.ObjectLiteralElementLike): string[] {
  return property.name && (ts.isIdentifier(property.name) || ts.isStringLiteral(property.name))
    ? [property.name.text]
    : [];
}

/** Event types that `src/domain` declares. */
export function eventTypes(): string {
  const types = sourcesBelow('src/domain').flatMap((path) =>
    [...readFileSync(path, 'utf8').matchAll(/\btype: ((?:'[a-z]+\.[a-zA-Z]+'(?: \| )?)+)/g)].flatMap(([, list = '']) =>
      [...list.matchAll(/'([^']+)'/g)].map(([, type = '']) => type),
    ),
  );
  return text(types);
}

const text = (lines: readonly string[]) => `${[...new Set(lines)].sort().join('\n')}\n`;

function sourcesBelow(...folders: string[]): string[] {
  return folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => join(folder, name)),
  );
}
