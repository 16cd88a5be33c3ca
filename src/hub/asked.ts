/**
 * Verbs that another hub may ask for, of parties that live here, and how this one asks for them there. (Y1 of `peers.ts`)
 *
 * A1  A refusal comes back as it was thrown there. A hub that cannot be asked is `unavailable`: whether it was done is not known.
 * A2  A shard may come here while its hub is sought. Then nothing was asked, and it is done here.
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

/** Does it here when the party lives here, and has it done by the hub that it lives in otherwise. (Z1 of `shards.ts`) */
export async function atHome<T>(
  core: Core,
  party: PartyId,
  verb: string,
  data: unknown,
  here: () => Promise<T>,
): Promise<T> {
  const shard = core.store.shardOf(party);
  for (;;) {
    await core.shards.settled(shard);
    if (core.shards.has(shard)) return here();
    const reply = await replyOf<T>(core, shard, verb, data);
    if (reply !== null) return reply.value;
  }
}

/** Has a verb done by the hub that has a shard, which is another one. */
export async function askShard<T>(core: Core, shard: Shard, verb: string, data: unknown): Promise<T> {
  const reply = await replyOf<T>(core, shard, verb, data);
  if (reply === null) throw new HubError('unavailable', { retryAfterS: 1 });
  return reply.value;
}

/** Null: the shard has come here. [A2] */
async function replyOf<T>(
  { peers, shards, ports }: Core,
  shard: Shard,
  verb: string,
  data: unknown,
): Promise<{ readonly value: T } | null> {
  let reply: Reply | null;
  try {
    if (!peers) throw new Error('there are no peers');
    reply = (await peers.ask(shard, verb, data, () => shards.has(shard))) as Reply | null;
  } catch (error) {
    ports.log.warn({ err: error, verb, shard }, 'a peer could not be asked');
    throw new HubError('unavailable', { retryAfterS: 1 });
  }
  if (reply !== null && 'refusal' in reply) throw new HubError(reply.refusal.code, reply.refusal.detail);
  return reply as { readonly value: T } | null;
}
