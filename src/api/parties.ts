/** Answers about partners and their registration. */
import * as z from 'zod';
import { moduleNames } from '../domain/modules.ts';
import { instant, interfaceRole, quirkSource, role, type View } from './common.ts';
import { settingOutputs } from './partner-settings.ts';

export const businessDetails = z.strictObject({
  name: z.string().min(1).max(100),
  website: z.url().max(255).optional(),
});

export const partyRole = z.strictObject({
  role,
  country_code: z.string().regex(/^[A-Za-z]{2}$/, 'expected two letters'),
  party_id: z.string().regex(/^[A-Za-z0-9]{1,3}$/, 'expected one to three letters or digits'),
  business_details: businessDetails.optional(),
});

/** `sync`, results of commands, the deliveries of one module, or `async`: the deliveries of all modules. */
export const circuitName = z.enum(['sync', 'async', 'results', ...moduleNames]);

/** A change of the host of `url`; `from` and `to` are host and port. */
export const hostChange = z
  .object({ from: z.string(), to: z.string(), at: z.string(), state: z.enum(['waiting', 'confirmed', 'made']) })
  .describe('waiting = refused until confirm-host; confirmed = the next PUT may make it; made = it was made');

/** The last call to a partner that failed. */
export const lastError = z.object({
  at: z.string(),
  what: z.enum(['sync', 'probe', ...moduleNames]).describe('sync = authorize, command or its result'),
  delivery: z.string().nullable().describe('id of the delivery'),
  class: z.string(),
  http_status: z.number().nullable(),
  ocpi_status: z.number().nullable(),
  excerpt: z.string().describe('of the answer, or what happened'),
});

/** What passed between hub and partner last; known since the hub started, and last pushes from the newest events. */
const contacts = {
  last_request: z.string().nullable().describe('its last request to the hub'),
  last_answer: z.string().nullable().describe('its last answer to a call of the hub, whatever its status'),
  last_error: lastError.nullable(),
  silent_since: z
    .string()
    .nullable()
    .describe('of a connected CPO that has pushed nothing for silent_after_h or else HUB_SILENT_AFTER_H'),
  inbound: z
    .array(z.object({ module: z.string(), last_push: z.string(), last_hour: z.number() }))
    .describe('its pushes by module; last_hour = how many within the last hour'),
};

/** A partner as operators see it; it contains no token. */
export const party = z.object({
  id: z.string(),
  status: z.enum(['REGISTERED', 'CONNECTED', 'OFFLINE', 'SUSPENDED']),
  roles: z.array(
    partyRole.extend({
      left_out: z
        .literal(true)
        .exactOptional()
        .describe('its last credentials leave it out: other partners see it as PLANNED'),
    }),
  ),
  left_out: z
    .array(z.string())
    .describe('parties that its last credentials leave out: other partners see them as PLANNED'),
  url: z.string().nullable().describe('of its credentials'),
  endpoints: z.array(
    z.object({
      identifier: z.string(),
      role: interfaceRole,
      url: z.string(),
      source: z.enum(['discovered', 'operator']),
    }),
  ),
  settings: z.object(settingOutputs),
  token_sent_as: z
    .enum(['base64', 'plain'])
    .describe('form in which the hub sends the token of the partner; with auto as the last exchange found it'),
  quirks: z
    .array(z.object({ setting: z.string(), value: z.string(), heals: z.string(), source: quirkSource }))
    .describe('settings that make up for a habit of the partner'),
  circuits: z.array(
    z.object({
      circuit: circuitName,
      state: z.enum(['closed', 'open', 'halfOpen']),
      failures: z.number(),
      /** When an open circuit becomes half-open and lets a call through; null in the other states. */
      until: z.string().nullable(),
    }),
  ),
  queue: z.object({ depth: z.number(), oldest_age_s: z.number().nullable(), dead: z.number() }),
  last_contact: z.string().nullable().describe('the same as last_request'),
  ...contacts,
  tokens: z
    .array(
      z.object({
        kind: z.enum(['hub', 'former', 'initial']),
        last_used: z.string().nullable().describe('null = not since the hub started'),
        address: z.string().nullable().describe('from where'),
      }),
    )
    .describe('tokens in force; former = the hub token before the last rotation'),
  refused_from: z
    .object({ count: z.number(), address: z.string(), at: z.string() })
    .nullable()
    .describe('requests from outside allow_from since the hub started, and the last of them'),
  token_refused: z
    .object({
      since: instant,
      calls: z.number(),
      http_status: z.number().nullable(),
      unconfirmed: z
        .enum(['POST', 'PUT'])
        .nullable()
        .describe(
          'its last exchange of credentials, when it has not used the hub token that answered it: the answer was probably lost',
        ),
    })
    .nullable()
    .describe('it refuses the token with which the hub calls it (401, 403)'),
  host_change: hostChange.nullable(),
  initial_token_expires_at: z
    .string()
    .nullable()
    .describe('null when it has no initial token, or HUB_INITIAL_TOKEN_DAYS is 0'),
  last_updated: z.string(),
});

const handshakeStep = z.object({
  at: z.string(),
  step: z
    .enum(['called', 'received', 'begun', 'failed', 'connected'])
    .describe(
      'called = its initial token was used; received = it sent its credentials and its versions are read; begun = the hub began, with a token of the partner',
    ),
  reason: z.string().nullable().describe('why it failed'),
});

export const handshake = z.object({
  versions_url: z.string().describe('where the partner begins'),
  steps: z.array(handshakeStep).describe('oldest first'),
});

export const probe = z.object({
  status: z.enum(['reachable', 'unreachable']),
  latency_ms: z.number(),
  error: z.string().exactOptional(),
});

export type ProbeView = View<typeof probe>;
export type PartyView = View<typeof party>;
export type ContactsView = Pick<PartyView, keyof typeof contacts>;
export type EndpointView = PartyView['endpoints'][number];
export type HandshakeView = View<typeof handshake>;
export type HandshakeStep = View<typeof handshakeStep>;

// Answers about the portal, in which a partner helps itself.

export const portalLink = z.object({
  url: z.string().describe('for the partner alone: anyone who has it can sign in until it expires'),
  expires_at: z.string(),
});

export const portalSession = z.object({
  token: z.string().describe('of the routes below /portal/v1'),
  partner: z.string(),
  ends_at: z.string(),
});

export type PortalLink = View<typeof portalLink>;
export type PortalSession = View<typeof portalSession>;
