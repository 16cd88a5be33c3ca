/** Stately's own tools read the stream: their receivers, their relay, and XState itself, which takes the definitions for machines. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import {
  createBrowserReceiver,
  createInspector,
  createWebSocketReceiver,
  type StatelyActorEvent,
  type StatelyInspectionEvent,
} from '@statelyai/inspect';
import { createInspectorServer } from '@statelyai/inspect/server';
import { WebSocket } from 'ws';
import { type AnyMachineSnapshot, type AnyStateMachine, createActor, createMachine, type StateValue } from 'xstate';
import { courierMachine } from '../../machines/courier.ts';
import { freePort } from '../../src/sandbox/free-port.ts';
import { setCircuit } from '../support/forward-failures.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { eventually } from '../support/plain-partner.ts';
import { t } from '../support/tap.ts';
import { browserProtocols, path } from './inspected.ts';

/** What an inspector makes of the stream, by the package's own types: machines, and the state that each actor is in. */
class Inspected {
  readonly machines = new Map<string, AnyStateMachine>();
  readonly states = new Map<string, AnyMachineSnapshot>();
  readonly events = new Map<string, string[]>();

  readonly take = (message: StatelyInspectionEvent): void => {
    const { sessionId } = message;
    switch (message.type) {
      case '@xstate.actor':
        this.machines.set(sessionId, createMachine(JSON.parse(message.definition ?? '') as object));
        this.#show(sessionId, message.snapshot);
        break;
      case '@xstate.snapshot':
        this.#show(sessionId, message.snapshot);
        break;
      case '@xstate.event':
        this.events.set(sessionId, [...(this.events.get(sessionId) ?? []), message.event.type]);
    }
  };

  /** Throws when the state is not one of the machine that was sent. */
  #show(sessionId: string, snapshot: object): void {
    const { value, context } = snapshot as { value: StateValue; context: object };
    const state = this.machines.get(sessionId)?.resolveState({ value, context });
    if (state) this.states.set(sessionId, state);
  }
}

t.test('Stately’s relay and receiver understand the stream, and XState its machines', async (t) => {
  const hub = await hubFor(t, { HUB_CIRCUIT_OPEN_MS: '600000', HUB_DELIVERY_CONCURRENCY: '64' });
  await routedPair(t, hub);
  const port = await freePort();
  const relay = createInspectorServer({ port, autoOpen: false });
  // Neither relay nor receiver can be told to close its sockets.
  const sockets: Socket[] = [];
  const keep = (message: unknown) => sockets.push((message as { socket: Socket }).socket);
  subscribe('net.server.socket', keep);
  t.teardown(() => {
    unsubscribe('net.server.socket', keep);
    for (const socket of sockets) if (socket.localPort === port) socket.destroy();
    relay.stop();
  });
  const seen = new Inspected();
  createWebSocketReceiver({ server: `ws://127.0.0.1:${port}` }).subscribe(seen.take);
  const out = new WebSocket(`ws://127.0.0.1:${port}`);
  await once(out, 'open');
  const hubSocket = new WebSocket(`${hub.url.replace(/^http/, 'ws')}${path}`, browserProtocols(hub.adminToken));
  t.teardown(() => {
    for (const socket of [out, hubSocket]) socket.terminate();
  });
  hubSocket.on('message', (data) => out.send(String(data)));

  const id = 'circuit:NL-EMS/sessions';
  await eventually('all actors are there', () => seen.states.size === 4);
  t.ok(seen.states.get('partner:NL-EMS')?.matches({ connection: 'connected' }));
  setCircuit(hub, 'NL-EMS', 'sessions', 'open');
  await eventually('the change is seen', () => seen.states.get(id)?.matches('open') === true);
  t.same(seen.events.get(id), ['operator.opened']);
  t.ok(seen.states.get(id)?.can({ type: 'circuit.due' }), 'what may come next is read from the machine that was sent');
  const courier = seen.states.get('courier:NL-EMS');
  t.equal(
    createActor(courierMachine, { input: { slotsMax: 64 } }).getSnapshot().context.slotsMax,
    courier?.context.slotsMax,
  );
});

t.test('messages have the form of Stately’s own inspector, and its browser receiver accepts no other', async (t) => {
  const hub = await hubFor(t);
  await routedPair(t, hub);
  const own: StatelyInspectionEvent[] = [];
  const inspector = createInspector({ send: (message) => own.push(message) });
  const actor = createActor(courierMachine, { input: { slotsMax: 8 }, inspect: inspector.inspect });
  actor.start();
  actor.send({ type: 'pause' });
  await eventually('their inspector has spoken', () => own.some(({ type }) => type === '@xstate.snapshot'));

  const listeners: ((event: { data: unknown }) => void)[] = [];
  const page = { addEventListener: (_type: string, listen: (typeof listeners)[number]) => listeners.push(listen) };
  const taken: StatelyInspectionEvent[] = [];
  const window = { ...page, opener: null };
  Object.assign(window, { self: window, top: window });
  createBrowserReceiver({ window } as unknown as Parameters<typeof createBrowserReceiver>[0]).subscribe((message) =>
    taken.push(message),
  );
  const socket = new WebSocket(`${hub.url.replace(/^http/, 'ws')}${path}`, browserProtocols(hub.adminToken));
  t.teardown(() => socket.terminate());
  const types: string[] = [];
  socket.on('message', (text) => {
    const data = JSON.parse(String(text)) as { type: string };
    types.push(data.type);
    for (const listen of listeners) listen({ data });
  });
  await eventually('all has been sent', () => types.includes('ocpi-hub.complete'));
  for (let n = 0; n < 5; n++) {
    for (const type of ['pause', 'resume']) hub.created.context.supervisor.send('courier:NL-EMS', { type });
  }
  await eventually('the reader gets a message about the missed events', () => types.includes('ocpi-hub.missed'));
  t.same(
    taken.map(({ type }) => type),
    types.filter((type) => !type.startsWith('ocpi-hub.')),
    'the hub’s own two messages are passed over',
  );

  // `id` is null in some of theirs though typed as text, and an actor without parent or source has none of those.
  const formOf = (message: object) =>
    Object.fromEntries(
      Object.entries(message)
        .filter(([key, value]) => value !== undefined && key !== 'id')
        .map(([key, value]) => [key, typeof value]),
    );
  for (const type of ['@xstate.actor', '@xstate.event', '@xstate.snapshot'] as const) {
    const [ours, theirs] = [taken, own].map((messages) => messages.find((message) => message.type === type));
    t.match(formOf(ours ?? {}), formOf(theirs ?? {}), type);
    t.equal(ours?._version, theirs?._version);
  }
  const ofCourier = (messages: readonly StatelyInspectionEvent[]) =>
    messages.find(
      (message): message is StatelyActorEvent =>
        message.type === '@xstate.actor' && /"door"/.test(String(message.definition)),
    );
  const { context: _initial, ...chart } = JSON.parse(ofCourier(own)?.definition ?? '{}') as { context: unknown };
  t.same(JSON.parse(ofCourier(taken)?.definition ?? '{}'), chart, 'the definition is theirs, without the context');
});
