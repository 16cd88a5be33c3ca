/**
 * `ocpi-hub parties add`, `initial-token`, `portal-link` and `connect`: add a partner, let it register again, let it in to its portal, or
 * register with it.
 */
import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import type { PartyView, PortalLink } from '../api/parties.ts';
import { Failure } from './client.ts';
import { complete, kinds, partyPath } from './complete.ts';
import { many } from './table.ts';
import { count, oneOf, repeated, verb } from './verb.ts';

interface AddFlags {
  readonly role?: readonly string[];
  readonly also?: readonly string[];
  readonly name?: string;
  readonly tokenEncoding?: string;
  readonly identityMode?: string;
  readonly compatibilityUntil?: string;
}

export function addVerb(): Command {
  return verb<AddFlags>({
    usage: 'add <party>',
    summary: 'add a partner and show its initial token, this once',
    options: [
      ['--role <role>', 'CPO or EMSP; repeatable', repeated],
      ['--also <role:party>', 'another party of the same partner, for example EMSP:NL-XYZ; repeatable', repeated],
      ['--name <name>', 'of the business'],
      ['--token-encoding <encoding>', 'auto, base64 or plain', oneOf('auto', 'base64', 'plain')],
      ['--identity-mode <mode>', 'COMPATIBILITY or COMPLIANT', oneOf('COMPATIBILITY', 'COMPLIANT')],
      ['--compatibility-until <instant>', 'end of the grace period of COMPATIBILITY, RFC 3339'],
    ],
    examples: ['parties add NL-TNM --role CPO --name "Example Charging"', 'parties add DE-ABC --role CPO --role EMSP'],
    run: async ({ hub, screen }, [party = ''], flags) => {
      const { role = [], also = [], name, tokenEncoding, identityMode, compatibilityUntil } = flags;
      if (role.length === 0) throw new Failure('--role is missing: CPO or EMSP', { exitCode: 2 });
      const roles = [...role.map((each) => `${each}:${party}`), ...also].map((text) => roleOf(text, name));
      const chosen = {
        token_encoding: tokenEncoding,
        identity_mode: identityMode,
        compatibility_until: compatibilityUntil,
      };
      const added = await hub.send<PartyView & { initial_token: string }>('POST', '/parties', { roles, ...chosen });
      screen.answer(added, ({ id, initial_token }) => issued(id, initial_token, hub.url));
    },
  });
}

export function initialTokenVerb(): Command {
  return verb({
    usage: 'initial-token <id>',
    summary: 'issue a new initial token, to register again; a registered partner goes on as it is until it has done so',
    examples: ['parties initial-token NL-TNM'],
    run: async ({ hub, screen }, [given = '']) => {
      const id = await complete(hub, kinds.party, given);
      const path = `/parties/${encodeURIComponent(id)}/initial-token`;
      screen.answer(await hub.send<{ initial_token: string }>('POST', path), ({ initial_token }) =>
        issued(id, initial_token, hub.url),
      );
    },
  });
}

export function portalLinkVerb(): Command {
  return verb<{ hours?: number }>({
    usage: 'portal-link <id>',
    summary: 'make a link by which a partner signs in to its portal and helps itself',
    options: [['--hours <n>', 'until the link expires, up to 168; 24 when left out', count]],
    examples: ['parties portal-link NL-TNM', 'parties portal-link NL-TNM --hours 1'],
    run: async ({ hub, screen }, [given = ''], { hours }) => {
      const id = await complete(hub, kinds.party, given);
      const path = `/parties/${encodeURIComponent(id)}/portal-link`;
      const made = await hub.send<PortalLink>('POST', path, { hours });
      screen.answer(made, ({ url, expires_at }) => [
        `${id} signs in to its portal with this link until ${expires_at}; anyone who has it can sign in:`,
        `  ${url}`,
      ]);
    },
  });
}

export function connectVerb(): Command {
  return verb<{ versionsUrl?: string; partnerToken?: string }>({
    usage: 'connect <id>',
    summary: 'begin the exchange of credentials, with a token that the partner gave',
    options: [
      ['--versions-url <url>', "the partner's versions"],
      ['--partner-token <token>', 'its token; read from standard input when left out'],
    ],
    examples: ['parties connect NL-TNM --versions-url https://cpo.example/ocpi/versions < token.txt'],
    run: async ({ hub, screen }, [given = ''], { versionsUrl, partnerToken }) => {
      if (versionsUrl === undefined) throw new Failure('--versions-url is missing', { exitCode: 2 });
      const token = partnerToken ?? (await text(process.stdin)).trim();
      const path = `${await partyPath(hub, given)}/connect`;
      const body = { versions_url: versionsUrl, token };
      screen.answer(await hub.send<PartyView>('POST', path, body), ({ id, status, endpoints }) => [
        `${id} is ${status}, with ${many(endpoints.length, 'endpoint')}`,
      ]);
    },
  });
}

function issued(id: string, token: string, url: string): string[] {
  return [
    `initial token of ${id}, shown only once:`,
    '',
    `  ${token}`,
    '',
    `With it the partner calls POST /ocpi/2.2.1/credentials (versions at ${url}/ocpi/versions, unless a public URL is set).`,
  ];
}

function roleOf(text: string, name: string | undefined): object {
  const [, role = '', country_code = '', party_id = ''] =
    /^(CPO|EMSP):([A-Za-z]{2})-([A-Za-z0-9]{1,3})$/i.exec(text) ?? [];
  if (role === '') {
    throw new Failure(`"${text.replace(':', ' ')}": expected CPO or EMSP and a party such as NL-TNM`, { exitCode: 2 });
  }
  return {
    role: role.toUpperCase(),
    country_code: country_code.toUpperCase(),
    party_id: party_id.toUpperCase(),
    business_details: name === undefined ? undefined : { name },
  };
}
