/**
 * The request of a delivery, made of the event that owes it. The operators' view shares it, so operators see exactly what is sent.
 */
import type { StoredEvent } from '../../../storage/contract.ts';
import type { ObjectEventData, Owed } from '../../domain/events.ts';
import { objectName } from '../../domain/object.ts';
import { endpointOf, type Partner, type PartyId, within } from '../../domain/party.ts';
import type { Context } from '../kernel/context.ts';
import { type PartnerDirectory, tokenFor } from '../kernel/directory.ts';
import type { DeliveryDetail } from '../ports/operator.ts';
import type { CallSubject, OutboundCall } from '../ports/ports.ts';
import type { Item } from './delivery-row.ts';

/** Where a delivery goes now. */
export interface Target {
  readonly partner: Partner;
  /** Of the receiver's module. */
  readonly url: string;
}

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
  { directory, ports, settings }: Context,
  { partner, url: moduleUrl }: Target,
  item: Item,
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
    token: tokenFor(ports, partner),
    encoding: partner.settings.token_encoding,
    from: directory.party((event.data as ObjectEventData).owner) ?? null,
    to: directory.party(item.receiver) ?? null,
    requestId: ports.secrets.newId(),
    correlationId: event.correlationId ?? ports.secrets.newId(),
    timeoutMs: settings.deliveryTimeoutMs,
    emptyOk: partner.settings.empty_2xx_ok,
    resend: true,
    isDelivery: true,
    about: subjectOf(partner, item),
  };
}

export const subjectOf = (partner: Partner, { module, sender, id }: Item): CallSubject => ({
  partner: partner.id,
  module,
  object: objectName({ owner: sender, id }),
});

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
