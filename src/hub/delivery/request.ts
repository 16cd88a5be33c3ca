/**
 * Builds the request that carries a delivery from the event that owes it. Sending and the operators' view share
 * `requestOf`, so operators see exactly what is sent.
 */
import type { StoredEvent } from '../../../storage/contract.ts';
import type { Outcome, OutcomeClass } from '../../domain/errors.ts';
import { deliveryId, type ObjectEventData, type Owed } from '../../domain/events.ts';
import { objectName } from '../../domain/object.ts';
import { endpointOf, type Partner, type PartyId } from '../../domain/party.ts';
import { within } from '../exchange/sync-calls.ts';
import type { Context } from '../kernel/context.ts';
import type { PartnerDirectory } from '../kernel/directory.ts';
import type { Recorder } from '../kernel/recorder.ts';
import type { DeliveryDetail } from '../ports/operator.ts';
import type { OutboundCall } from '../ports/ports.ts';
import type { Item } from './lanes.ts';

/** `moduleUrl` may have its own query, which the request keeps. */
function requestOf(
  event: StoredEvent,
  owed: Owed | null,
  moduleUrl: string,
): Pick<OutboundCall, 'method' | 'url' | 'body'> {
  return {
    method: owed?.method ?? 'PUT',
    url: within(moduleUrl, owed?.path ?? '', owed?.query.slice(1)),
    body: owed?.method === 'DELETE' ? null : (owed?.body ?? event.body),
  };
}

/** Encoded bodies of requests with several receivers (fan-out): encoded once while the event is in memory. */
const bytesOf = new WeakMap<Owed, Buffer>();

/** Undefined when the event has a single receiver, so that encoding once saves nothing. */
function sharedBytes(event: StoredEvent, owed: Owed | null, body: string): Buffer | undefined {
  if (event.to.length < 2 || owed === null) return undefined;
  let bytes = bytesOf.get(owed);
  if (!bytes) {
    bytes = Buffer.from(body);
    bytesOf.set(owed, bytes);
  }
  return bytes;
}

/** The call that carries the delivery to the partner that holds the receiver. */
export function callOf(
  { directory, ports: { secrets }, settings }: Context,
  partner: Partner,
  moduleUrl: string,
  receiver: PartyId,
  event: StoredEvent,
  owed: Owed | null,
): OutboundCall {
  const { method, url, body } = requestOf(event, owed, moduleUrl);
  return {
    method,
    url,
    endpoint: moduleUrl,
    body,
    bytes: body === null ? undefined : sharedBytes(event, owed, body),
    token: secrets.open(partner.partnerToken ?? ''),
    encoding: partner.settings.token_encoding,
    from: directory.party((event.data as ObjectEventData).owner) ?? null,
    to: directory.party(receiver) ?? null,
    requestId: secrets.newId(),
    correlationId: event.correlationId ?? secrets.newId(),
    timeoutMs: settings.deliveryTimeoutMs,
    emptyOk: partner.settings.empty_2xx_ok,
    resend: true,
    isDelivery: true,
  };
}

/** Fields of the log line of an attempt. */
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

/** Records `delivery.dead` in the event log. */
export function noteDead(recorder: Recorder, item: Item, outcomeClass: OutcomeClass, reason: string): void {
  const delivery = deliveryId(item.receiver, item);
  const { receiver, sender, module, id } = item;
  const object = objectName({ owner: sender, id });
  const data = { delivery, receiver, sender, module, object, class: outcomeClass, reason };
  recorder.note({
    facts: [{ stream: `delivery:${delivery}`, event: { type: 'delivery.dead', data }, party: null }],
    trace: item.correlationId === null ? null : { correlationId: item.correlationId },
    at: recorder.instant(),
  });
}

/** The request as it would be sent now; `url` is null when the receiver has no endpoint for the module. */
export function presentRequest(
  directory: PartnerDirectory,
  event: StoredEvent,
  owed: Owed | null,
  receiver: PartyId,
): DeliveryDetail['request'] {
  const { module, owner } = event.data as ObjectEventData;
  const partner = directory.partnerOf(receiver);
  const endpoint = partner && endpointOf(partner, module, 'RECEIVER');
  const request = requestOf(event, owed, endpoint?.url ?? '');
  return {
    ...request,
    url: endpoint ? request.url : null,
    from: directory.party(owner) ?? null,
    to: directory.party(receiver) ?? null,
  };
}
