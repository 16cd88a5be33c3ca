/** Settings by which operators sign in by OpenID Connect and are notified: part of the table of all settings. */
import * as z from 'zod';
import { type OperatorRole, operatorRole, operatorRoles } from '../api/audit.ts';
import {
  httpUrl,
  issuerUrl,
  type Kind,
  mailAddress,
  mailAddresses,
  number,
  setting,
  smtpUrl,
  span,
  text,
} from './setting-kinds.ts';

const claim = text('claim', /^\S{1,100}$/, 'the name of a claim, 1 to 100 characters without spaces');

const rolesByValue: Kind<ReadonlyMap<string, OperatorRole>> = {
  schema: z
    .string()
    .transform((value) => value.split(',').map((part) => /^\s*(.*\S)\s*=\s*(\w+)\s*$/.exec(part)?.slice(1) ?? []))
    .pipe(z.array(z.tuple([z.string(), operatorRole])).max(100))
    .transform((pairs) => new Map(pairs)),
  unit: 'value=role, comma-separated',
  expected: `a comma-separated list of values and roles (${operatorRoles.join(', ')}) such as hub-admins=admin,noc=support`,
};

export const oidc = {
  HUB_OIDC_ISSUER: setting(issuerUrl, null, {
    meaning: 'OpenID Connect provider by which operators sign in to the console; http on loopback alone',
    consequence: 'whom it lets in with a role of HUB_OIDC_ROLES acts on the hub',
    otherwise: 'none: operators sign in by token',
  }),
  HUB_OIDC_CLIENT_ID: setting(text('text', /^[\x21-\x7e]{1,256}$/, '1 to 256 printable ASCII characters'), null, {
    meaning: 'how the provider knows the hub',
    consequence: 'the provider refuses another',
    otherwise: 'required if HUB_OIDC_ISSUER is set',
  }),
  HUB_OIDC_CLIENT_SECRET: setting(text('text', /^[\x21-\x7e]{1,1024}$/, '1 to 1024 printable ASCII characters'), null, {
    meaning: 'secret of that client; sent in the body (client_secret_post)',
    consequence: 'without it the hub is a public client, which PKCE alone protects',
    secret: true,
  }),
  HUB_OIDC_REDIRECT_URL: setting(httpUrl, null, {
    meaning: 'where the provider sends browsers back to, as registered there: {console}/oidc/callback',
    consequence: 'the provider refuses one that it does not know',
    otherwise: '{public URL}/console/oidc/callback; required if operators have a listener of their own',
  }),
  HUB_OIDC_ROLES: setting(rolesByValue, null, {
    meaning:
      'role for each value of HUB_OIDC_ROLE_CLAIM: value=role, comma-separated; of several the highest role applies',
    consequence: 'who has none of the values is not let in',
    otherwise: 'required if HUB_OIDC_ISSUER is set',
  }),
  HUB_OIDC_ROLE_CLAIM: setting(claim, 'groups', {
    meaning: 'claim of the ID token, or of the user info, with those values',
    consequence: 'a claim that people can set themselves lets them choose their role',
  }),
  HUB_OIDC_NAME_CLAIM: setting(claim, 'email', {
    meaning: 'claim that becomes the name in the audit log: 1 to 64 letters, digits or any of . _ @ -',
    consequence: 'a claim that people can change lets them act under the name of another',
  }),
  HUB_OIDC_SESSION_H: setting(span('h', 720), '8', {
    meaning: 'how long a sign-in holds',
    consequence: 'until then the hub does not notice that the provider took a role away',
  }),
};

// Settings of notifications of operators, and of their mail: part of the table of all settings.

export const notify = {
  HUB_NOTIFY_BACKLOG_S: setting(number('s', 0, 31_536_000), '3600', {
    meaning: 'age of the oldest undelivered delivery of a partner of which webhooks and mail tell; 0 = never',
    consequence: 'shorter, a short outage of a partner is notified',
  }),
  HUB_NOTIFY_DISK_PERCENT: setting(number('percent', 0, 100), '10', {
    meaning: 'free share of the file system of the data directory below which webhooks and mail tell; 0 = never',
    consequence: 'lower, less time is left until the hub can no longer write',
  }),
  HUB_SMTP_URL: setting(smtpUrl, null, {
    meaning: 'mail server through which the hub notifies operators: smtp[s]://user:password@host:port',
    consequence: 'without it no mail is sent; with smtp, TLS is used when the server offers it',
    secret: true,
  }),
  HUB_MAIL_FROM: setting(mailAddress, null, {
    meaning: 'sender of the mail',
    consequence: 'many servers refuse a sender that is not theirs',
    otherwise: 'required if HUB_SMTP_URL is set',
  }),
  HUB_MAIL_TO: setting(mailAddresses, null, {
    meaning: 'who gets the mail; at most one a minute, with all that is new',
    consequence: 'they see names of partners and ids of sessions',
    otherwise: 'required if HUB_SMTP_URL is set',
  }),
};
