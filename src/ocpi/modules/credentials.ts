/**
 * The Credentials module: a partner registers, rotates its tokens, or ends its registration. `admit` decides which
 * tokens reach these routes; the hub fetches the partner's versions and records the outcome. [interface, Credentials;
 * D9–D13]
 */
import type { CredentialsBody } from '../../domain/party.ts';
import { businessDetails } from '../../transport/shapes.ts';
import {
  type Checked,
  check,
  httpUrl,
  identifier,
  list,
  may,
  must,
  object,
  oneOf,
  tokenText,
} from '../../transport/types.ts';
import { anyParty } from '../caller.ts';
import { checkedBody, refuseAmbiguous } from '../objects.ts';
import { data, done, type Exchange, type OcpiModule, version } from '../route.ts';

const role = object({
  role: must(oneOf('CPO', 'EMSP', 'HUB', 'NAP', 'NSP', 'OTHER', 'SCSP')),
  country_code: must(identifier(2)),
  party_id: must(identifier(3)),
  business_details: may(businessDetails),
});

const credentialsBody = object({ token: must(tokenText), url: must(httpUrl), roles: must(notEmpty(list(role))) });

function notEmpty<T>(type: Checked<T[]>): Checked<T[]> {
  return { ...type, schema: type.schema.refine((all) => all.length > 0, { error: 'expected at least one role' }) };
}

const base = { path: `/${version}/credentials`, by: anyParty, budget: 'other' } as const;

export const credentials: OcpiModule = {
  identifier: 'credentials',
  roles: ['SENDER'],
  routes: [
    { ...base, method: 'GET', handle: (hub, { credential }) => data(hub.credentialsOf(credential)) },
    {
      ...base,
      method: 'POST',
      budget: 'exchanges',
      onboarding: 'begins',
      handle: async (hub, exchange) =>
        data(await hub.register(exchange.credential, () => readCredentials(exchange), exchange.caller.trace)),
    },
    {
      ...base,
      method: 'PUT',
      budget: 'exchanges',
      onboarding: 'changes',
      handle: async (hub, exchange) =>
        data(await hub.rotate(exchange.credential, () => readCredentials(exchange), exchange.caller.trace)),
    },
    {
      ...base,
      method: 'DELETE',
      onboarding: 'changes',
      handle: async (hub, { credential, caller }) => {
        await hub.unregister(credential, caller.trace);
        return done();
      },
    },
  ],
};

/** Credentials as a partner answers them; refuses with `invalid`. */
export function credentialsIn(text: string): CredentialsBody {
  const value: unknown = JSON.parse(text);
  refuseAmbiguous(text);
  return credentialsOf(check(credentialsBody, value).body);
}

const readCredentials = (exchange: Exchange): CredentialsBody =>
  credentialsOf(checkedBody(exchange, credentialsBody).body);

type Body = typeof credentialsBody extends Checked<infer T> ? T : never;

function credentialsOf({ token, url, roles }: Body): CredentialsBody {
  return {
    token,
    url,
    roles: roles.map(({ role, country_code, party_id, business_details: details }) => ({
      role,
      country_code,
      party_id,
      ...(details?.name && { business_details: { name: details.name, website: details.website ?? undefined } }),
    })),
  };
}
