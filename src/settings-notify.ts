/** Settings of notifications of operators, and of their mail: part of the table of all settings. */
import { mailAddress, mailAddresses, number, setting, smtpUrl } from './setting-kinds.ts';

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
