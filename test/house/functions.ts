/**
 * Lists every function of a build by a hash of its text, to prove that a change only moves code:
 *
 *     node dist/test/house/functions.js dist                      name and hash of each
 *     node dist/test/house/functions.js dist --against DIR/dist   the functions that only one of the two builds has
 *
 * Import declarations differ where files move and are not hashed; neither are comments and white space.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import ts from 'typescript';

const rooms = ['bin', 'src', 'machines', 'storage'];
const printer = ts.createPrinter({ removeComments: true });

/** `hash name` of each function, sorted; duplicates are kept. */
function functionsOf(build: string): string[] {
  const found: string[] = [];
  for (const room of rooms.map((name) => join(build, name)).filter(existsSync)) {
    const files = readdirSync(room, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.js'));
    for (const file of files) {
      const source = ts.createSourceFile(file, readFileSync(join(room, file), 'utf8'), ts.ScriptTarget.Latest, true);
      const visit = (node: ts.Node): void => {
        if (ts.isFunctionLike(node) && 'body' in node && node.body)
          found.push(`${hashOf(node, source)} ${nameOf(node)}`);
        ts.forEachChild(node, visit);
      };
      visit(source);
    }
  }
  return found.sort();
}

function hashOf(node: ts.Node, source: ts.SourceFile): string {
  const text = printer.printNode(ts.EmitHint.Unspecified, node, source).replace(/\s+/g, ' ');
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

function nameOf(node: ts.Node): string {
  const named = node as { readonly name?: ts.Node; readonly parent?: { readonly name?: ts.Node } };
  return (named.name ?? named.parent?.name)?.getText() ?? '(anonymous)';
}

/** Entries of the first list that the second lacks, counting duplicates. */
function lacking(some: readonly string[], others: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const one of others) counts.set(one, (counts.get(one) ?? 0) + 1);
  return some.filter((one) => {
    const left = counts.get(one) ?? 0;
    counts.set(one, left - 1);
    return left <= 0;
  });
}

const { positionals, values } = parseArgs({ allowPositionals: true, options: { against: { type: 'string' } } });
const [build = 'dist'] = positionals;
const here = functionsOf(build);
if (values.against === undefined) {
  console.log(here.join('\n'));
} else {
  const before = functionsOf(values.against);
  for (const one of lacking(before, here)) console.log(`- ${one}`);
  for (const one of lacking(here, before)) console.log(`+ ${one}`);
  console.log(`${before.length} functions before, ${here.length} now`);
}
