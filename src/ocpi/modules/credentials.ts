/**
 * The Credentials module: a partner registers, rotates its tokens, or ends its registration. `admit` decides which
 * tokens reach these routes; the hub fetches the partner's versions and records the outcome. [interface, Credentials;
 * D9–D13]
 */
import type { CredentialsBody } from '../../domain/party.ts';
import type { Hub, IssuedCredentials } from '../../hub/ports/hub.ts';
import { businessDetails, image } from '../../transport/shapes.ts';
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
  snapshot,
  tokenText,
} from '../../transport/types.ts';
import { anyParty } from '../caller.ts';
import { checkedBody, refuseAmbiguous } from '../objects.ts';
import { type Answer, data, done, type Exchange, type OcpiModule, version } from '../route.ts';

/** The hub reads nothing of the logo. [D64] */
const details = object({ ...businessDetails.shape, logo: may(snapshot(image)) });

const role = object({
  role: must(oneOf('CPO', 'EMSP', 'HUB', 'NAP', 'NSP', 'OTHER', 'SCSP')),
  country_code: must(identifier(2)),
  party_id: must(identifier(3)),
  business_details: may(details),
});

const credentialsBody = object({ token: must(tokenText), url: must(httpUrl), roles: must(notEmpty(list(role))) });

function notEmpty<T>(type: Checked<T[]>): Checked<T[]> {
  return {
    ...type,
    schema: type.schema.refine((all) => all.length > 0, { error: 'expected at least one role' }),
    isPlain: (value) => Array.isArray(value) && value.length > 0 && type.isPlain(value),
  };
}

const base = { path: `/${version}/credentials`, by: anyParty, budget: 'other' } as const;

export const credentials: OcpiModule = {
  identifier: 'credentials',
  // The role means nothing here; clients look for either.
  roles: ['SENDER', 'RECEIVER'],
  routes: [
    { ...base, method: 'GET', handle: (hub, { credential }) => data(hub.credentialsOf(credential)) },
    {
      ...base,
      method: 'POST',
      budget: 'exchanges',
      onboarding: 'begins',
      handle: (hub, exchange) =>
        exchanged(hub, exchange, (read) => hub.register(exchange.credential, read, exchange.caller.trace)),
    },
    {
      ...base,
      method: 'PUT',
      budget: 'exchanges',
      onboarding: 'changes',
      handle: (hub, exchange) =>
        exchanged(hub, exchange, (read) => hub.rotate(exchange.credential, read, exchange.caller.trace)),
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
  refuseAmbiguous(text, credentialsBody);
  return credentialsOf(check(credentialsBody, value).body);
}

/** Answers an exchange, and notes what the body has wrong once it has succeeded. [D70] */
async function exchanged(
  hub: Hub,
  exchange: Exchange,
  run: (read: () => CredentialsBody) => Promise<IssuedCredentials>,
): Promise<Answer> {
  let notes: readonly string[] = [];
  const issued = await run(() => {
    const checked = checkedBody(exchange, credentialsBody);
    notes = checked.notes;
    return credentialsOf(checked.body);
  });
  hub.warned({ partner: exchange.caller.partner.id, module: 'credentials', object: null }, notes);
  return data(issued);
}

/** Each exchange is an event that a start reads. A longer name is cut, and a longer website, which would lead elsewhere then, is left out. */
const nameMax = 100;
const websiteMax = 255;
const short = (website: string | null | undefined) => (website && website.length <= websiteMax ? website : undefined);

type Body = typeof credentialsBody extends Checked<infer T> ? T : never;

function credentialsOf({ token, url, roles }: Body): CredentialsBody {
  return {
    token,
    url,
    roles: roles.map(({ role, country_code, party_id, business_details: details }) => ({
      role,
      country_code,
      party_id,
      ...(details?.name && {
        business_details: { name: details.name.slice(0, nameMax), website: short(details.website) },
      }),
    })),
  };
}
