import type { Meter } from '../../src/hub/ports/ports.ts';

/** A meter that drops every measurement. */
export const noMeter: Meter = {
  ingested: () => {},
  notForwarded: () => {},
  refused: () => {},
  warned: () => {},
  used: () => {},
  committed: () => {},
  attempted: () => {},
  deliveryEnded: () => {},
  forwarded: () => {},
  hostChanged: () => {},
  actorFailed: () => {},
  unrecorded: () => {},
};
