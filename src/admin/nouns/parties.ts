/**
 * Routes `/parties`: partners and their parties: onboarding, initial token, handshake, endpoints set by the operator,
 * probes, circuit breakers, suspension, links to its portal.
 */
import * as z from 'zod';
import { interfaceRole, listOf } from '../../api/common.ts';
import { pageQuery, partnerParams as params } from '../../api/fields.ts';
import {
  businessDetails,
  circuitName,
  handshake,
  type PartyView,
  party,
  partyRole,
  portalLink,
  probe,
} from '../../api/parties.ts';
import { settingInputs } from '../../api/partner-settings.ts';
import { report } from '../../api/report.ts';
import { settingRows } from '../../domain/partner-settings.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, pageOf, route } from '../route.ts';
import { requireRole } from '../tokens.ts';

const roles = z
  .array(partyRole)
  .min(1)
  .max(100)
  .refine(
    (roles) => isUnique(roles, (one) => `${one.role} ${one.country_code}-${one.party_id}`),
    'names a party twice',
  );

const newParty = z.strictObject({ roles, ...settingInputs });

const changes = z.strictObject({ ...settingInputs, business_details: businessDetails.exactOptional() });

const receiverUrl = z
  .url({ protocol: /^https?$/, error: 'expected an http or https URL' })
  .max(2048)
  .refine((url) => !/[?#@]/.test(url), 'expected a URL without user, query or fragment');

const newEndpoints = z.strictObject({
  endpoints: z
    .array(
      z.strictObject({
        identifier: z
          .string()
          .regex(/^[A-Za-z0-9_-]{1,64}$/, 'expected the identifier of a module, for example sessions')
          .toLowerCase(),
        role: interfaceRole,
        url: receiverUrl,
      }),
    )
    .max(100)
    .refine((all) => isUnique(all, (one) => `${one.role} ${one.identifier}`), 'names an endpoint twice'),
});

/** As `hostOf` writes it, which is what a change of host is compared with. */
const hostAndPort = z
  .string()
  .max(255)
  .regex(
    /^(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*|\[[0-9A-Fa-f:.]+\]):\d{1,5}$/,
    'expected host and port, for example cpo.example:443',
  )
  .toLowerCase();

const portalAsked = z.strictObject({
  hours: z.int().min(1).max(168).default(24).describe('until it expires'),
});

const hubToken = z.string().exactOptional().describe('of a partner that is pull only, shown only once');
const initialToken = z.string().describe('shown only once');

export function parties(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'POST',
      path: '/parties',
      role: 'admin',
      summary: 'Add a partner with its parties; answers its initial token, or with pull_only its hub token',
      status: 201,
      body: newParty,
      answer: party.extend({ initial_token: initialToken.exactOptional(), hub_token: hubToken }),
      async run({ body: { roles, ...chosen }, trace }) {
        const added = await operations.addParty(roles, chosen, trace);
        const token = 'hubToken' in added ? { hub_token: added.hubToken } : { initial_token: added.initialToken };
        return { ...added.party, ...token };
      },
    }),
    route({
      method: 'GET',
      path: '/parties',
      summary: 'List partners',
      query: z.strictObject(pageQuery),
      answer: listOf(party),
      run: ({ query }) => pageOf<PartyView>(operations.parties(), ({ id }) => id, query),
    }),
    route({
      method: 'GET',
      path: '/parties/{id}',
      summary: 'Show a partner, by its id or that of any of its parties',
      params,
      answer: party,
      run: ({ params: { id } }) => operations.party(id),
    }),
    route({
      method: 'PATCH',
      path: '/parties/{id}',
      summary: 'Change settings of a partner; pull_only needs the role admin, and answers its hub token',
      params,
      body: changes,
      answer: party.extend({ hub_token: hubToken }),
      async run({ params: { id }, body: { business_details, ...chosen }, trace, caller }) {
        for (const [name, row] of settingRows) {
          if (row.role !== undefined && chosen[name] !== undefined) requireRole(caller, row.role);
        }
        const changed = await operations.changeParty(id, chosen, business_details, trace);
        return { ...changed.party, ...(changed.hubToken !== undefined && { hub_token: changed.hubToken }) };
      },
    }),
    route({
      method: 'POST',
      path: '/parties/{id}/initial-token',
      role: 'admin',
      summary:
        'Issue a new initial token, to register again; a registered partner goes on as it is until its POST with it succeeds',
      status: 201,
      params,
      answer: z.object({ initial_token: initialToken }),
      run: async ({ params: { id }, trace }) => ({ initial_token: await operations.issueInitialToken(id, trace) }),
    }),
    route({
      method: 'POST',
      path: '/parties/{id}/connect',
      role: 'admin',
      summary: 'Begin the exchange of credentials, with a token that the partner gave',
      params,
      body: z.strictObject({
        versions_url: z.url({ protocol: /^https?$/, error: 'expected an http or https URL' }).max(2048),
        token: z.string().regex(/^[\x21-\x7e]{1,64}$/, 'expected 1 to 64 printable characters without spaces'),
      }),
      answer: party,
      run: ({ params: { id }, body: { versions_url: versionsUrl, token }, trace }) =>
        operations.connect(id, { versionsUrl, token }, trace),
    }),
    route({
      method: 'POST',
      path: '/parties/{id}/confirm-host',
      role: 'admin',
      summary: 'Confirm a change of host: the next PUT of credentials may make it, or one that was made is settled',
      params,
      body: z.strictObject({
        host: hostAndPort.exactOptional().describe('host and port, as in host_change.to'),
      }),
      answer: party,
      run: ({ params: { id }, body: { host }, trace }) => operations.confirmHost(id, host, trace),
    }),
    route({
      method: 'GET',
      path: '/parties/{id}/handshake',
      summary: 'Show how the registration of a partner went since the hub started',
      params,
      answer: handshake,
      run: ({ params: { id } }) => operations.handshake(id),
    }),
    route({
      method: 'GET',
      path: '/parties/{id}/report',
      showsBodies: true,
      summary: 'Show what a partner does wrong, and what the hub makes up for',
      params,
      answer: report,
      run: ({ params: { id } }) => operations.report(id),
    }),
    route({
      method: 'PUT',
      path: '/parties/{id}/endpoints',
      summary: 'Set the endpoints that win over discovered ones',
      params,
      body: newEndpoints,
      answer: party,
      run: ({ params: { id }, body, trace }) => operations.setEndpoints(id, body.endpoints, trace),
    }),
    route({
      method: 'PUT',
      path: '/parties/{id}/roles',
      // Its token speaks for each party that it holds.
      role: 'admin',
      summary:
        'Set the parties and roles of a partner; what is left out is removed, which is refused while something depends on it',
      params,
      body: z.strictObject({ roles }),
      answer: party,
      run: ({ params: { id }, body, trace }) => operations.setRoles(id, body.roles, trace),
    }),
    route({
      method: 'POST',
      path: '/parties/{id}/probe',
      role: 'support',
      summary: 'Ask a partner for its versions now, to know whether it can be reached',
      params,
      answer: probe,
      run: ({ params: { id } }) => operations.probe(id),
    }),
    route({
      method: 'POST',
      path: '/parties/{id}/circuits/{circuit}',
      summary: 'Open a circuit by hand, or close it and forget its failures',
      params: params.extend({ circuit: circuitName }),
      body: z.strictObject({ state: z.enum(['open', 'closed']) }),
      answer: party,
      run: ({ params: { id, circuit }, body: { state }, trace }) => operations.setCircuit(id, circuit, state, trace),
    }),
    route({
      method: 'POST',
      path: '/parties/{id}/suspend',
      summary: 'Suspend a partner, as its own DELETE of the credentials does; a new initial token brings it back',
      params,
      answer: party,
      run: ({ params: { id }, trace }) => operations.suspend(id, trace),
    }),
    route({
      method: 'POST',
      path: '/parties/{id}/portal-link',
      // Its portal issues initial tokens.
      role: 'admin',
      summary: 'Make a link by which a partner signs in to its portal, for 8 hours each time',
      status: 201,
      params,
      body: portalAsked.default({ hours: 24 }),
      answer: portalLink,
      run: ({ params: { id }, body: { hours } }) => operations.portalLink(id, hours),
    }),
  ];
}

function isUnique<T>(items: readonly T[], keyOf: (item: T) => string): boolean {
  return new Set(items.map((item) => keyOf(item).toUpperCase())).size === items.length;
}
