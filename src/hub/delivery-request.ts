/**
 * The request that carries a delivery, made from the event that owes it. What is sent and what operators are shown is the same.
 */
import type { StoredEvent } from '../../storage/contract.ts';
import type { ObjectEventData } from '../domain/events.ts';
import { endpointOf, type Partner, type PartyId } from '../domain/party.ts';
import type { Core } from './core.ts';
import type { DeliveryDetail } from './operator.ts';
import type { OutboundCall } from './ports.ts';
import type { State } from './state.ts';

/** `moduleUrl` may have a query of its own. */
function requestOf(event: StoredEvent, moduleUrl: string): Pick<OutboundCall, 'method' | 'url' | 'body'> {
  const { owed } = event.data as ObjectEventData;
  const [path = '', ownQuery] = moduleUrl.split('?');
  const queries = [ownQuery, owed?.query.slice(1)].filter(Boolean).join('&');
  return {
    method: owed?.method ?? 'PUT',
    url: path.replace(/\/+$/, '') + (owed?.path ?? '') + (queries ? `?${queries}` : ''),
    body: owed?.method === 'DELETE' ? null : (owed?.body ?? event.body),
  };
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
