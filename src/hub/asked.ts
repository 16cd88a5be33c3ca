/**
 * Verbs that another hub may ask for, of parties that live here, and how this one asks for them there. (Y1 of `peers.ts`)
 *
 * A1  A refusal comes back as it was thrown there. A hub that cannot be asked is `unavailable`: whether it was done is not known.
 */
import type { Shard } from '../../storage/contract.ts';
import { type ErrorCode, HubError, type HubErrorDetail } from '../domain/errors.ts';
import type { PartyId } from '../domain/party.ts';
import type { Core } from './core.ts';

/** What goes back over the wire. */
type Reply =
  | { readonly value: unknown }
  | { readonly refusal: { readonly code: ErrorCode; readonly detail: HubErrorDetail } };

/** By name; each checks nothing, since hubs trust each other. */
export type AskedVerbs = Readonly<Record<string, (data: never) => Promise<unknown>>>;

/** Answers what a peer asks; never rejects. */
export function answering(core: Core, verbs: AskedVerbs): (verb: string, data: unknown) => Promise<Reply> {
  return async (verb, data) => {
    try {
      const work = verbs[verb];
      if (!work) throw new HubError('unavailable', { message: `${verb} is not known here` });
      return { value: (await work(data as never)) ?? null };
    } catch (error) {
      if (error instanceof HubError) return { refusal: { code: error.code, detail: error.detail } };
      core.ports.log.error({ err: error, verb }, 'could not do what a peer asked for');
      return { refusal: { code: 'unavailable', detail: { retryAfterS: 1 } } };
    }
  };
}

/** Has a verb done by the hub that a party lives in. Not to be used for parties that live here. */
export function askHome<T>(core: Core, party: PartyId, verb: string, data: unknown): Promise<T> {
  return askShard<T>(core, core.store.shardOf(party), verb, data);
}

/** Has a verb done by the hub that has a shard. */
export async function askShard<T>({ peers, ports }: Core, shard: Shard, verb: string, data: unknown): Promise<T> {
  let reply: Reply;
  try {
    if (!peers) throw new Error('there are no peers');
    reply = (await peers.ask(shard, verb, data)) as Reply;
  } catch (error) {
    ports.log.warn({ err: error, verb, shard }, 'a peer could not be asked');
    throw new HubError('unavailable', { retryAfterS: 1 });
  }
  if ('refusal' in reply) throw new HubError(reply.refusal.code, reply.refusal.detail);
  return reply.value as T;
}
