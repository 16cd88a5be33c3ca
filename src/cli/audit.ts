/** `ocpi-hub audit`: lists the acts of operators, and checks that no entry is missing. Exit 1 when one is. */
import type { Command } from 'commander';
import type { AuditCheck, AuditEntry } from '../api/audit.ts';
import { Failure } from './client.ts';
import { listVerb } from './list-verb.ts';
import { type Column, many, when } from './table.ts';
import { instant, noun, verb } from './verb.ts';

const columns: readonly Column<AuditEntry>[] = [
  { title: 'n', of: ({ n }) => n, align: 'right' },
  { title: 'at', of: ({ at }, now) => when(at, now) },
  { title: 'operator', of: ({ operator, role }) => (role === null ? operator : `${operator} (${role})`) },
  { title: 'status', of: ({ status }) => status, colour: ({ status }) => (status < 400 ? null : 'red') },
  { title: 'act', of: ({ verb: act, about }) => `${act.split(' ', 1)[0]} ${about}`, shrinksTo: 30 },
  { title: 'reason', of: ({ reason }) => reason, shrinksTo: 20 },
  { title: 'from', of: ({ address }) => address },
];

export function command(): Command {
  return noun('audit', 'who acted on the hub, why, and from where', [
    listVerb<AuditEntry>({
      summary: 'list the acts of operators and the readings of bodies, newest first',
      options: [
        ['--operator <name>', 'by this operator'],
        ['--verb <text>', 'whose method and route contain this, for example suspend'],
        ['--about <text>', 'whose path contains this, for example NL-CPO'],
        ['--from <instant>', 'since then: RFC 3339, a date, or a span before now such as 2h', instant],
        ['--to <instant>', 'before then', instant],
      ],
      examples: ['audit', 'audit list --operator anna --from 7d', 'audit list --verb redrive --json'],
      path: '/audit',
      limit: 50,
      columns,
      whenEmpty: () => 'No acts match.',
    }),
    verb({
      usage: 'check',
      summary: 'check that no entry is missing or changed',
      examples: ['audit check'],
      async run({ hub, screen }) {
        const found = await hub.get<AuditCheck>('/audit/check');
        screen.answer(found, ({ entries, first, last, head }) => [
          entries === 0
            ? 'No entries.'
            : `${many(entries, 'entry', 'entries')}, ${first} to ${last}; digest of the last one: ${head}`,
        ]);
        if (found.broken)
          throw new Failure(`the audit log is broken: entry ${found.broken.n} is ${found.broken.reason}`);
      },
    }),
  ]);
}
