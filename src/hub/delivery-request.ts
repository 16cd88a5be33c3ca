/**
 * The request that carries a delivery, made from the event that owes it. What is sent and what operators are shown is the same.
 */
import type { StoredEvent } from '../../storage/contract.ts';
import type { Outcome } from '../domain/errors.ts';
import type { ObjectEventData } from '../domain/events.ts';
import { endpointOf, type Partner, type PartyId } from '../domain/party.ts';
import { within } from './calls.ts';
import type { Core } from './core.ts';
import { deliveryId } from './delivery-id.ts';
import type { Item } from './lanes.ts';
import type { DeliveryDetail } from './operator.ts';
import type { OutboundCall } from './ports.ts';
import type { State } from './state.ts';

/** `moduleUrl` may have a query of its own. */
function requestOf(event: StoredEvent, moduleUrl: string): Pick<OutboundCall, 'method' | 'url' | 'body'> {
  const { owed } = event.data as ObjectEventData;
  return {
    method: owed?.method ?? 'PUT',
    url: within(moduleUrl, owed?.path ?? '', owed?.query.slice(1)),
    body: owed?.method === 'DELETE' ? null : (owed?.body ?? event.body),
  };
}

/** Bodies as bytes, of events that are owed to several: made once, for as long as the event is in memory. */
const bytesOf = new WeakMap<StoredEvent, Buffer>();

/** Undefined when nobody shares them. */
function sharedBytes(event: StoredEvent, body: string): Buffer | undefined {
  if (event.to.length < 2) return undefined;
  let bytes = bytesOf.get(event);
  if (!bytes) {
    bytes = Buffer.from(body);
    bytesOf.set(event, bytes);
  }
  return bytes;
}

/** The call that carries it to the partner that holds the receiver. */
export function callOf(
  { state, ports: { secrets }, settings }: Core,
  partner: Partner,
  moduleUrl: string,
  receiver: PartyId,
  event: StoredEvent,
): OutboundCall {
  const { method, url, body } = requestOf(event, moduleUrl);
  return {
    method,
    url,
    body,
    bytes: body === null ? undefined : sharedBytes(event, body),
    token: secrets.open(partner.partnerToken ?? ''),
    encoding: partner.settings.token_encoding,
    from: state.party((event.data as ObjectEventData).owner) ?? null,
    to: state.party(receiver) ?? null,
    requestId: secrets.newId(),
    correlationId: event.correlationId ?? secrets.newId(),
    timeoutMs: settings.deliveryTimeoutMs,
    emptyOk: partner.settings.empty_2xx_ok,
    resend: true,
  };
}

/** What the log says of an attempt. */
export function attemptLine(item: Item, { correlationId }: StoredEvent, outcome: Outcome) {
  return {
    partyId: item.receiver,
    module: item.module,
    objectKey: item.stream,
    attempt: item.tries + 1,
    deliveryId: deliveryId(item.receiver, item),
    outcome: outcome.class,
    durationMs: Math.round(outcome.durationMs),
    correlationId,
  };
}

/** As it would go out now; without a URL where the receiver has no endpoint for it. */
export function presentRequest(state: State, event: StoredEvent, receiver: PartyId): DeliveryDetail['request'] {
  const { module, owner } = event.data as ObjectEventData;
  const partner = state.partnerOf(receiver);
  const endpoint = partner && endpointOf(partner, module, 'RECEIVER');
  const request = requestOf(event, endpoint?.url ?? '');
  return {
    ...request,
    url: endpoint ? request.url : null,
    from: state.party(owner) ?? null,
    to: state.party(receiver) ?? null,
  };
}
