/**
 * A mail server on a real socket that keeps what it is given.
 */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { SMTPServer } from 'smtp-server';
import type { Test } from './tap.ts';
import { testCert, testKey } from './tls.ts';
import { Changes, within } from './within.ts';

export interface KeptMail {
  readonly from: string;
  readonly to: readonly string[];
  /** As it came: headers and body. */
  readonly text: string;
}

export interface SmtpSink {
  readonly port: number;
  readonly mails: KeptMail[];
  /** Refuses every mail meanwhile. */
  isDown: boolean;
  /** Mails that it was offered, refused ones included. */
  readonly offered: number;
  /** Passwords that it was sent, each with whether that was over TLS. */
  readonly passwords: { readonly given: string; readonly isOverTls: boolean }[];
  got(count: number): Promise<void>;
  wasOffered(count: number): Promise<void>;
}

/** How it speaks TLS: not at all, from the first byte, or when the client asks for it. */
type Tls = 'none' | 'smtps' | 'starttls';

/** Accepts every user with this password. With TLS it presents `testCert`. */
export async function smtpSink(
  t: Pick<Test, 'teardown'>,
  password: string,
  { tls = 'none' }: { readonly tls?: Tls } = {},
): Promise<SmtpSink> {
  const changes = new Changes();
  let offered = 0;
  const server = new SMTPServer({
    ...{ authOptional: false, allowInsecureAuth: true, logger: false, cert: testCert, key: testKey },
    ...{ secure: tls === 'smtps', disabledCommands: tls === 'starttls' ? [] : ['STARTTLS'] },
    onAuth({ username = '', password: sent }, { secure }, done) {
      const given = sent ?? '';
      sink.passwords.push({ given, isOverTls: secure });
      if (given === password) done(null, { user: username });
      else done(new Error(`${username} may not in with ${given}`));
    },
    async onData(stream, { envelope }, done) {
      const chunks: Buffer[] = [];
      for await (const chunk of stream) chunks.push(chunk as Buffer);
      offered += 1;
      const from = envelope.mailFrom === false ? '' : envelope.mailFrom.address;
      const to = envelope.rcptTo.map(({ address }) => address);
      if (!sink.isDown) sink.mails.push({ from, to, text: Buffer.concat(chunks).toString() });
      done(sink.isDown ? new Error('the mailbox is full') : null);
      changes.tell();
    },
  });
  // A client that does not trust the certificate ends its connection.
  server.on('error', () => {});
  const until = async (what: string, holds: () => boolean) => {
    while (!holds()) await within(60_000, changes.next(), () => `${what}, but ${offered} were offered`);
  };
  const listening = server.listen(0, '127.0.0.1');
  await once(listening, 'listening');
  const sink: SmtpSink = {
    port: (listening.address() as AddressInfo).port,
    mails: [],
    passwords: [],
    isDown: false,
    get offered() {
      return offered;
    },
    got: (count) => until(`it never got ${count} mails`, () => sink.mails.length >= count),
    wasOffered: (count) => until(`it was never offered ${count} mails`, () => offered >= count),
  };
  t.teardown(() => new Promise<void>((resolve) => server.close(resolve)));
  return sink;
}
