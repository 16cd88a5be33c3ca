/**
 * In which shard what a request is about lives, so that it can be answered there.
 */
import type { Shard } from '../../storage/contract.ts';
import type { CommandRecord } from '../domain/command.ts';
import { type Core, rowData } from './core.ts';

export interface Homes {
  ofParty(party: string): Shard;
  /** Of the partner whose token it is; null when it is nobody's, as far as this hub has read. */
  ofToken(token: string): Shard | null;
  /** Null: there is none of this id. */
  ofCommand(id: string): Promise<Shard | null>;
  ofCase(id: string): Promise<Shard | null>;
  /** Resolves when everything is read that other hubs recorded before the call. */
  caughtUp(): Promise<void>;
}

export function homes(core: Core, caughtUp: () => Promise<void>): Homes {
  const { store, state, ports } = core;
  const ofParty = (party: string) => store.shardOf(party.toUpperCase());
  return {
    ofParty,
    ofToken(token) {
      const owner = state.tokenOwner(ports.secrets.digest(token));
      return owner && ofParty(owner.partner.id);
    },
    async ofCommand(id) {
      const record = await rowData<CommandRecord>(store, { kind: 'commands', owner: '', id });
      return record && ofParty(record.emsp);
    },
    async ofCase(id) {
      for await (const row of store.scan('orphans')) if (row.id === id) return ofParty(row.owner);
      return null;
    },
    caughtUp,
  };
}
