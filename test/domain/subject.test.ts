/**
 * Whom and what events are about: every type that a hub can record, and what can be told of events of older stores.
 */
import { readFileSync } from 'node:fs';
import type { Actor, HubEvent, ObjectEventData } from '../../src/domain/events.ts';
import { concerns, type Recorded, subjectOf, subjects } from '../../src/domain/subject.ts';
import { t } from '../support/tap.ts';

type Type = HubEvent['type'];

const rolesOf = (partner: string): string[] => (partner === 'NL-CPO' ? ['NL-CPO', 'NL-TWO'] : []);

const change: ObjectEventData = {
  ...{ module: 'sessions', method: 'PUT', owner: 'NL-CPO', id: 'S1', within: [], lastUpdated: null, facts: {} },
  ...{ viewer: 'NL-EMS', owed: null, reason: null, warnings: [] },
};
const dead = { delivery: '7-NL-EMS', receiver: 'NL-EMS', class: 'not_found', reason: 'HTTP 404' };
const named = { sender: 'NL-CPO', module: 'sessions', object: 'NL-CPO/S1' };
const command = { command: 'STOP_SESSION', emsp: 'NL-EMS', cpo: 'NL-CPO', sessionId: 'S1' };
const watch = { kind: 'stop_without_complete', emsp: 'NL-EMS', cpo: 'NL-CPO', session: 'S1' };
const job = { id: 'j', kind: 'redrive', state: 'RUNNING' };

type Told = readonly [
  event: Partial<Recorded>,
  about: string,
  parties: readonly string[],
  object: string | null,
  by: Actor,
];

const pushed = { stream: 'sessions/NL-CPO/s1', party: 'NL-CPO', to: ['NL-EMS', 'DE-EMS'], data: change };
const session = 'session:NL-CPO/S1';
const pair = ['NL-CPO', 'NL-EMS'];
const three = ['NL-CPO', 'NL-EMS', 'DE-EMS'];
const ofPartner = { stream: 'partner:NL-CPO', party: 'NL-CPO', data: {} };
const platform = ['NL-CPO', 'NL-TWO'];
const ofCircuit = { ...ofPartner, party: null };
const ofCommand = { stream: 'command:c', data: command };
const ofWatch = { stream: 'orphan:o', data: watch };
const ofPull = { stream: 'pull:p', party: 'NL-CPO', data: {} };
const ofRoute = { stream: 'route:NL-EMS/NL-CPO', data: { emsp: 'NL-EMS', cpo: 'NL-CPO', active: true } };
const ofDelivery = { stream: 'delivery:7-NL-EMS', data: { ...dead, ...named } };
const ofJob = { stream: 'job:j', data: job };
const ofNotice = {
  stream: 'notifications',
  data: { kind: 'partner.offline', subject: 'NL-CPO', parties: ['NL-CPO'] },
};
const ofTriage = {
  stream: 'triage:NL-EMS:cdrs:timeout',
  data: { receiver: 'NL-EMS', module: 'cdrs', class: 'timeout' },
};
const ofBackup = { stream: 'backup:b', data: { id: 'b', directory: '/b', state: 'DONE' } };

const hosts = { from: 'old.example', to: 'new.example' };

/** One of each type, or more where what it is about depends on more. */
const told: { readonly [Each in Type]: readonly Told[] } = {
  'object.put': [
    [pushed, session, three, 'NL-CPO/S1', 'partner'],
    [{ ...pushed, data: { ...change, by: 'hub' } }, session, three, 'NL-CPO/S1', 'hub'],
  ],
  'object.patched': [[pushed, session, three, 'NL-CPO/S1', 'partner']],
  'object.deleted': [
    [
      {
        ...pushed,
        data: { ...change, module: 'tokens', owner: 'NL-EMS', id: 'CARD' },
        party: 'NL-EMS',
        to: ['NL-CPO'],
      },
      ...(['token:NL-EMS/CARD', ['NL-EMS', 'NL-CPO'], 'NL-EMS/CARD', 'partner'] as const),
    ],
  ],
  'object.resent': [
    [{ ...pushed, party: null }, session, three, 'NL-CPO/S1', 'operator'],
    [{ ...pushed, party: null, data: { ...change, by: 'hub' } }, session, three, 'NL-CPO/S1', 'hub'],
  ],
  'object.base': [[{ ...pushed, to: [] }, session, pair, 'NL-CPO/S1', 'hub']],
  'object.missed': [
    [{ ...pushed, party: null, to: [] }, session, pair, 'NL-CPO/S1', 'hub'],
    [
      { ...pushed, party: null, to: [], data: { ...change, receiver: 'NL-OTH' } },
      ...([session, [...pair, 'NL-OTH'], 'NL-CPO/S1', 'hub'] as const),
    ],
  ],
  'partner.hostChangeAsked': [[{ ...ofPartner, data: hosts }, 'partner:NL-CPO', platform, null, 'partner']],
  'partner.hostChanged': [[{ ...ofPartner, data: hosts }, 'partner:NL-CPO', platform, null, 'partner']],
  'partner.hostConfirmed': [[{ ...ofPartner, data: hosts }, 'partner:NL-CPO', platform, null, 'operator']],
  'partner.added': [[ofPartner, 'partner:NL-CPO', platform, null, 'operator']],
  'partner.initialTokenIssued': [[ofPartner, 'partner:NL-CPO', platform, null, 'operator']],
  'partner.registered': [[ofPartner, 'partner:NL-CPO', platform, null, 'partner']],
  'partner.rotated': [[ofPartner, 'partner:NL-CPO', platform, null, 'partner']],
  'partner.tokenConfirmed': [[ofPartner, 'partner:NL-CPO', platform, null, 'partner']],
  'partner.hubTokenIssued': [[ofPartner, 'partner:NL-CPO', platform, null, 'operator']],
  'partner.resealed': [[ofPartner, 'partner:NL-CPO', platform, null, 'hub']],
  'partner.suspended': [
    [{ ...ofPartner, data: { reason: 'suspended by an operator' } }, 'partner:NL-CPO', platform, null, 'operator'],
    [{ ...ofPartner, data: { reason: 'unregistered by the partner' } }, 'partner:NL-CPO', platform, null, 'partner'],
  ],
  'partner.online': [[ofPartner, 'partner:NL-CPO', platform, null, 'hub']],
  'partner.offline': [[ofPartner, 'partner:NL-CPO', platform, null, 'hub']],
  'partner.changed': [[ofPartner, 'partner:NL-CPO', platform, null, 'operator']],
  'partner.endpointsSet': [[ofPartner, 'partner:NL-CPO', platform, null, 'operator']],
  'circuit.opened': [
    [
      { ...ofCircuit, data: { circuit: 'sync', reason: '', by: 'operator' } },
      'partner:NL-CPO',
      platform,
      null,
      'operator',
    ],
    [{ ...ofCircuit, data: { circuit: 'sync', reason: '' } }, 'partner:NL-CPO', platform, null, 'hub'],
  ],
  'circuit.closed': [[{ ...ofCircuit, data: { circuit: 'async' } }, 'partner:NL-CPO', platform, null, 'hub']],
  'command.requested': [
    [{ ...ofCommand, party: 'NL-EMS' }, 'command:c', ['NL-EMS', 'NL-CPO'], 'NL-CPO/S1', 'partner'],
    [{ ...ofCommand, data: { ...command, sessionId: null } }, 'command:c', ['NL-EMS', 'NL-CPO'], null, 'hub'],
  ],
  'command.answered': [[{ ...ofCommand, party: 'NL-CPO' }, 'command:c', pair, 'NL-CPO/S1', 'partner']],
  'command.failed': [[ofCommand, 'command:c', ['NL-EMS', 'NL-CPO'], 'NL-CPO/S1', 'hub']],
  'command.resultReceived': [[{ ...ofCommand, party: 'NL-CPO' }, 'command:c', pair, 'NL-CPO/S1', 'partner']],
  'command.relayed': [[ofCommand, 'command:c', ['NL-EMS', 'NL-CPO'], 'NL-CPO/S1', 'hub']],
  'command.relayFailed': [[ofCommand, 'command:c', ['NL-EMS', 'NL-CPO'], 'NL-CPO/S1', 'hub']],
  'command.silent': [
    [ofCommand, 'command:c', ['NL-EMS', 'NL-CPO'], 'NL-CPO/S1', 'hub'],
    [{ ...ofCommand, data: {} }, 'command:c', [], null, 'hub'],
  ],
  'orphan.armed': [[ofWatch, 'orphan:o', pair, 'NL-CPO/S1', 'hub']],
  'orphan.disarmed': [[ofWatch, 'orphan:o', pair, 'NL-CPO/S1', 'hub']],
  'orphan.opened': [
    [ofWatch, 'orphan:o', pair, 'NL-CPO/S1', 'hub'],
    [{ ...ofWatch, data: {} }, 'orphan:o', [], null, 'hub'],
  ],
  'orphan.pulled': [[{ ...ofWatch, data: { ...watch, by: 'operator' } }, 'orphan:o', pair, 'NL-CPO/S1', 'operator']],
  'orphan.triaged': [[{ ...ofWatch, data: { ...watch, by: 'operator' } }, 'orphan:o', pair, 'NL-CPO/S1', 'operator']],
  'orphan.resolved': [[{ ...ofWatch, data: { ...watch, by: 'operator' } }, 'orphan:o', pair, 'NL-CPO/S1', 'operator']],
  'push.refused': [
    [
      { stream: 'refused:NL-CPO/x', party: 'NL-CPO', data: { partner: 'NL-CPO', object: 'NL-CPO/S1' } },
      ...(['partner:NL-CPO', platform, 'NL-CPO/S1', 'partner'] as const),
    ],
  ],
  'report.noted': [
    [
      { stream: 'report:NL-CPO', party: 'NL-CPO', data: { warnings: {}, quirks: {} } },
      ...(['partner:NL-CPO', platform, null, 'hub'] as const),
    ],
  ],
  'release.ended': [
    [{ ...ofPartner, data: { partner: 'NL-CPO', released: 3 } }, 'partner:NL-CPO', platform, null, 'hub'],
  ],
  'pull.started': [[ofPull, 'pull:p', platform, null, 'operator']],
  'pull.progressed': [[ofPull, 'pull:p', platform, null, 'hub']],
  'pull.done': [[ofPull, 'pull:p', platform, null, 'hub']],
  'pull.failed': [[ofPull, 'pull:p', platform, null, 'hub']],
  'pull.objectRefused': [
    [
      { ...ofPull, stream: 'quarantine:NL-CPO/x', data: { pull: 'p', party: 'NL-CPO', object: 'NL-CPO/T1' } },
      ...(['pull:p', platform, 'NL-CPO/T1', 'hub'] as const),
    ],
  ],
  'route.set': [[ofRoute, 'route:NL-EMS/NL-CPO', ['NL-EMS', 'NL-CPO'], null, 'operator']],
  'route.removed': [[ofRoute, 'route:NL-EMS/NL-CPO', ['NL-EMS', 'NL-CPO'], null, 'operator']],
  'token.authorized': [
    [
      { party: 'NL-CPO', data: { direction: 'toEmsp', uid: 'CARD', from: 'NL-CPO', to: 'NL-EMS' } },
      ...(['token:NL-EMS/CARD', pair, 'NL-EMS/CARD', 'partner'] as const),
    ],
    [
      { party: 'NL-CPO', data: { direction: 'toEmsp', uid: 'CARD', from: 'NL-CPO', to: '' } },
      ...(['token:CARD', ['NL-CPO'], null, 'partner'] as const),
    ],
  ],
  'delivery.dead': [
    [ofDelivery, 'delivery:7-NL-EMS', ['NL-EMS', 'NL-CPO'], 'NL-CPO/S1', 'hub'],
    [{ ...ofDelivery, data: dead }, 'delivery:7-NL-EMS', ['NL-EMS'], null, 'hub'],
  ],
  'delivery.discarded': [[ofDelivery, 'delivery:7-NL-EMS', ['NL-EMS', 'NL-CPO'], 'NL-CPO/S1', 'operator']],
  'delivery.redriven': [[ofDelivery, 'delivery:7-NL-EMS', ['NL-EMS', 'NL-CPO'], 'NL-CPO/S1', 'operator']],
  'job.started': [
    [ofJob, 'job:j', [], null, 'operator'],
    [{ ...ofJob, data: { ...job, kind: 'resync', receiver: 'NL-CPO' } }, 'job:j', platform, null, 'operator'],
  ],
  'job.progressed': [[{ ...ofJob, data: { ...job, receiver: 'NL-EMS' } }, 'job:j', ['NL-EMS'], null, 'hub']],
  'job.ended': [
    [ofJob, 'job:j', [], null, 'hub'],
    [{ ...ofJob, data: { ...job, state: 'CANCELED' } }, 'job:j', [], null, 'operator'],
  ],
  'log.trimmed': [[{ stream: 'retention', data: { dead: { 'NL-EMS': 2 } } }, 'log:events', ['NL-EMS'], null, 'hub']],
  'backup.started': [[ofBackup, 'backup:b', [], null, 'operator']],
  'backup.ended': [[ofBackup, 'backup:b', [], null, 'hub']],
  'webhook.set': [[{ stream: 'webhook:on-call', data: { id: 'on-call' } }, 'webhook:on-call', [], null, 'operator']],
  'webhook.removed': [
    [{ stream: 'webhook:on-call', data: { id: 'on-call' } }, 'webhook:on-call', [], null, 'operator'],
  ],
  'history.recorded': [[{ stream: 'history:traffic' }, 'history:traffic', [], null, 'hub']],
  'triage.changed': [[ofTriage, 'triage:NL-EMS:cdrs:timeout', ['NL-EMS'], null, 'operator']],
  'triage.ended': [[ofTriage, 'triage:NL-EMS:cdrs:timeout', ['NL-EMS'], null, 'hub']],
  'view.saved': [[{ stream: 'view:dead' }, 'view:dead', [], null, 'operator']],
  'view.removed': [[{ stream: 'view:dead' }, 'view:dead', [], null, 'operator']],
  'notification.raised': [[ofNotice, 'notification:partner.offline/NL-CPO', ['NL-CPO'], null, 'hub']],
  'notification.ended': [[ofNotice, 'notification:partner.offline/NL-CPO', ['NL-CPO'], null, 'hub']],
  'person.erased': [
    [{ stream: 'erasure:e', data: { id: 'e', digests: ['erased-1'] } }, 'erasure:e', [], null, 'operator'],
  ],
  'audit.noted': [
    [{ stream: 'audit:1', data: { n: 1, operator: 'anna' } }, 'audit:1', [], null, 'operator'],
    [{ stream: 'audit:2', data: { n: 2, operator: 'hub' } }, 'audit:2', [], null, 'hub'],
  ],
  'audit.removed': [[{ stream: 'audit:1', data: {} }, 'audit:1', [], null, 'hub']],
  'quota.warned': [
    [
      { stream: 'quota:NL-CPO', data: { party: 'NL-CPO', mb: 8, mb_per_day: 10 } },
      'quota:NL-CPO',
      ['NL-CPO'],
      null,
      'hub',
    ],
  ],
  'row.rebuilt': [
    [
      { data: { kind: 'tokens', owner: 'NL-EMS', id: 'card/RFID' } },
      ...(['row:tokens/NL-EMS/card/RFID', ['NL-EMS'], 'NL-EMS/card', 'hub'] as const),
    ],
    [
      { data: { kind: 'sessions:owners', owner: 's1', id: 'NL-CPO' } },
      ...(['row:sessions:owners/s1/NL-CPO', ['NL-CPO'], null, 'hub'] as const),
    ],
  ],
  'actor.quarantined': [
    [{ data: { actor: 'courier:NL-CPO', error: '' } }, 'courier:NL-CPO', platform, null, 'hub'],
    [{ data: { actor: 'orphan-stop:NL-CPO/s1', error: '' } }, 'orphan-stop:NL-CPO/s1', ['NL-CPO'], 'NL-CPO/s1', 'hub'],
    [{ data: { actor: 'command:c', error: '', parties: pair } }, 'command:c', pair, null, 'hub'],
    [{ data: { actor: 'command:c', error: '' } }, 'command:c', [], null, 'hub'],
  ],
};

const recorded = (type: string, event: Partial<Recorded>): Recorded => {
  return { stream: 'a stream', party: null, to: [], data: {}, ...event, type };
};

t.test('every event type has its line in the table, and no line is of an unknown type [D80]', async (t) => {
  const sources = ['events', 'history', 'notification', 'party', 'pull', 'triage'].map((name) =>
    readFileSync(`src/domain/${name}.ts`, 'utf8'),
  );
  const declared = sources.flatMap((text) =>
    [...text.matchAll(/\btype:((?:\s*\|?\s*'[a-z]+\.[a-zA-Z]+')+)/g)].flatMap(([, types = '']) => [
      ...types.matchAll(/[a-z]+\.[a-zA-Z]+/g),
    ]),
  );
  const types = [...new Set(declared.map(([type]) => type))].sort();
  t.ok(types.length > 40, `${types.length} types`);
  t.strictSame(Object.keys(subjects).sort(), types);
  t.strictSame(Object.keys(told).sort(), types, 'and each is tried below');
});

t.test('each type names its subject, the parties concerned and who acted, also in older logs', async (t) => {
  for (const [type, cases] of Object.entries(told)) {
    for (const [event, about, parties, object, by] of cases) {
      t.strictSame(subjectOf(recorded(type, event), rolesOf), { about, parties, object, by }, type);
    }
  }
});

t.test('a filter finds an event by each party that it concerns, by its object and by its subject', async (t) => {
  for (const [type, cases] of Object.entries(told)) {
    for (const [partial, about, parties, object] of cases) {
      const event = recorded(type, partial);
      const finds = (filter: Parameters<typeof concerns>[1]) => concerns(event, filter, rolesOf);
      t.ok(finds({}), type);
      for (const party of parties) t.ok(finds({ party }), `${type} by ${party}`);
      t.notOk(finds({ party: 'XX-ELS' }), `${type} by another party`);
      t.ok(finds({ about: about.toLowerCase() }), `${type} by ${about}`);
      t.notOk(finds({ about: 'partner:xx-els' }));
      if (object !== null) t.ok(finds({ object: object.toLowerCase() }), `${type} by ${object}`);
      t.notOk(finds({ object: 'nl-cpo/other' }));
    }
  }
});

t.test('an event of a type that only a newer version knows belongs to its stream', async (t) => {
  const event = recorded('moon.landed', { stream: 'moon:1', party: 'NL-CPO', to: ['NL-EMS'] });
  t.strictSame(subjectOf(event, rolesOf), { about: 'moon:1', parties: pair, object: null, by: 'partner' });
});
