/**
 * Sends mail to operators through the server of HUB_SMTP_URL.
 *
 * MAIL-1  A send never throws, and ends within `timeoutMs`, or with `close`.
 * MAIL-2  The password of the server appears in no answer and no log line.
 * MAIL-3  With smtps, and wherever the server offers STARTTLS, its certificate is verified. A password is sent over TLS, or to
 *     loopback alone.
 */
import { createTransport } from 'nodemailer';
import type { Config } from './config/config.ts';
import type { Receipt, Telling } from './hub/ports/ports.ts';
import { type Clock, withTimeout } from './kit/clock.ts';
import { bareHost } from './kit/url.ts';

/** Limit of one mail, ms. */
const timeoutMs = 30_000;
const [smtpPort, smtpsPort] = [587, 465];

export type MailClient = NonNullable<Telling['mail']> & { close(): Promise<void> };

/** Null when no mail is configured. */
export function mailOf(config: Pick<Config, 'smtpUrl' | 'mailFrom' | 'mailTo'>, clock: Clock): MailClient | null {
  const { smtpUrl, mailFrom: from, mailTo: to } = config;
  if (smtpUrl === null || from === null || to === null) return null;
  const url = new URL(smtpUrl);
  const [user, pass] = [decodeURIComponent(url.username), decodeURIComponent(url.password)];
  const secure = url.protocol === 'smtps:';
  const host = bareHost(url);
  const isLoopback = host === 'localhost' || host === '::1' || host.startsWith('127.');
  const transport = createTransport({
    host,
    secure,
    port: Number(url.port) || (secure ? smtpsPort : smtpPort),
    ...(user !== '' && { auth: { user, pass }, requireTLS: !secure && !isLoopback }),
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  const failed = (why: string): Receipt => {
    const answer = (pass === '' ? why : why.replaceAll(pass, '…')).slice(0, 200);
    return { isTaken: false, httpStatus: null, answer };
  };
  const ending = new AbortController();
  return {
    to,
    async send({ subject, text }) {
      let result = failed(`the mail server did not answer within ${timeoutMs / 1000} s`);
      const { signal } = ending;
      const mail = { from, to: [...to], subject, text, date: new Date(clock.wall()), signal };
      const sending = transport.sendMail(mail).then(
        ({ response }) => {
          result = { isTaken: true, httpStatus: null, answer: String(response).slice(0, 200) };
        },
        (error: unknown) => {
          result = failed(error instanceof Error ? error.message : String(error));
        },
      );
      await withTimeout(clock, timeoutMs, sending);
      return result;
    },
    async close() {
      ending.abort(new Error('the hub ends'));
    },
  };
}
