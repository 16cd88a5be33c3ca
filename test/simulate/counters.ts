/** What must have happened at least once in a run of many seeds: a fault or a path that was never met proves nothing. */
export const sometimesNames = [
  'a commit was refused before it was written',
  'a commit was known to be written only after the mending',
  'a commit was of unknown outcome and was written',
  'a commit was of unknown outcome and was not written',
  'a settle failed and was written again',
  'a read was refused by a dismounted store',
  'the disk was slow',
  'a crash before a commit',
  'a crash between commit and dispatch',
  'a crash before a call was made',
  'a crash after a call took effect and before its answer',
  'a crash at any moment',
  'a crash while the hub was recovering',
  'a crash between a fact and what follows from it',
  'a process was down for minutes',
  'a crash lost settles',
  'an orderly restart',
  'a restart found everything as it was',
  'a delivery was repeated after a crash',
  'a clock was set back',
  'a clock was set forward',
  'a partner was down for minutes',
  'a partner was away for hours',
  'a module was broken while others went well',
  'a module was throttled while others went well',
  'a retry was made when it was due',
  'an object was deleted',
  'an answer was lost after the request took effect',
  'a connection was reset',
  'a call timed out',
  'a partner answered 5xx',
  'a partner answered 429 with Retry-After',
  'a partner answered 503 with Retry-After',
  'a slow answer came',
  'a partner refused for good',
  'a dead letter of a final class',
  'a retry window expired',
  'deliveries of a suspended partner ended',
  'a routing rule ended before what was owed over it was sent',
  'a lane was held while another moved',
  'a lane had more than memory holds of it',
  'a CDR waited for its session',
  'a whole object went in place of a part',
  'a circuit opened',
  'a half-open trial failed',
  'a half-open trial succeeded',
  'a call was held back by an open circuit',
  'a partner became OFFLINE',
  'a partner came back from OFFLINE',
  'a partner unregistered itself',
  'a partner was suspended by an operator',
  'a partner registered again',
  'a partner rotated its credentials',
  'an exchange failed at the versions of the partner',
  'a push was refused by the store',
  'a push was repeated after an unknown end',
  'a CDR was a duplicate',
  'a CDR that differs was refused',
  'a session of nobody was stored',
  'a session was repaired',
  'a location was unpublished',
  'a location was published by a PATCH',
  'a route was taken away',
  'deliveries were paused',
  'a receiver had no endpoint for what it was owed',
  'an eMSP without a receiver was not subscribed',
  'an operator set a missing endpoint',
  'a session went to who started it',
  'a CDR went to who started its session',
  'a COMPATIBILITY period was over',
  'a START_SESSION was too long ago',
  'the log was trimmed at work',
  'the log was trimmed at rest',
  'a crash while the log was trimmed',
  'a dead letter ended with its event',
  'a row was damaged',
  'a damaged row was made again',
  'a damaged row was made again from a trimmed log',
  'a command was answered ACCEPTED',
  'a command was refused by the CPO',
  'a command forward failed',
  'a callback came before the forward returned',
  'a callback came twice',
  'a callback came after the window',
  'a command fell silent',
  'a callback could not be relayed',
  'a command was cut off by a crash',
  'an orphan case was opened',
  'an orphan watch was disarmed',
  'an orphan case was resolved by the CPO',
  'an orphan case was resolved by an operator',
  'a dead letter was re-driven',
  'a dead letter was discarded',
  'a group of dead letters had somebody who takes care of it',
  'a delivery was put back behind others',
  'a re-drive was refused as stale',
  'a re-drive by filter ran',
  'a resync ran',
  'a pull ran to its end',
  'a pull failed',
  'an authorize was answered',
  'an authorize failed',
  'an actor threw and came back',
] as const;

export type Sometimes = (typeof sometimesNames)[number];

export class Counters {
  readonly #counts = new Map<string, number>();

  readonly hit = (name: Sometimes): void => {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
  };

  add(other: Readonly<Record<string, number>>): void {
    for (const [name, count] of Object.entries(other)) this.#counts.set(name, (this.#counts.get(name) ?? 0) + count);
  }

  all(): Record<string, number> {
    return Object.fromEntries(sometimesNames.map((name) => [name, this.#counts.get(name) ?? 0]));
  }

  /** Names that were never hit. */
  missing(): string[] {
    return sometimesNames.filter((name) => !this.#counts.get(name));
  }
}
