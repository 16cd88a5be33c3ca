/**
 * The way of pings to the owner: a channel that stays open, on which their requests are written as text. There is one for nearly
 * every write of a door, and Node's client takes twice the CPU for it, both ends counted.
 *
 * PING-LINE-1  One ping is in flight at a time. What it is answered is not read: any bytes are the answer, and of an answer in several
 *     parts the later ones may count for the next ping, which is on its way by then.
 * PING-LINE-2  A channel that ends, that is idle for `idleMs`, or on which a ping is not answered in time is given up; the next ping
 *     opens another. A ping may be lost with it. [ANNOUNCEMENTS-1]
 * PING-LINE-3  After `close` no channel is opened: what was written while the last ping was in flight would open one as its wait ends.
 */
import type { Duplex } from 'node:stream';
import { withTimeout } from '../kit/clock.ts';
import { systemClock as clock } from '../kit/system-clock.ts';
import type { ChannelClient } from './channel.ts';

/** Must stay below a node's keep-alive timeout (72 s), else a ping may be sent on a channel that the peer just closed. */
const idleMs = 60_000;

interface Line {
  readonly url: string;
  opened: Promise<Duplex | null>;
  readonly close: () => void;
  /** Ends the wait for the answer of the ping in flight. */
  answered: () => void;
}

export class PingLine {
  readonly #channels: Pick<ChannelClient, 'open'>;
  #line: Line | null = null;
  #isClosed = false;

  constructor(channels: Pick<ChannelClient, 'open'>) {
    this.#channels = channels;
  }

  /** `path` has no blanks. Resolves when the ping is answered, or lost. */
  async ping(url: string, path: string, timeoutMs: number): Promise<void> {
    if (this.#isClosed) return;
    if (this.#line?.url !== url) this.#line?.close();
    this.#line ??= this.#open(url);
    const line = this.#line;
    if (!(await withTimeout(clock, timeoutMs, sent(line, path)))) line.close();
  }

  close(): void {
    this.#isClosed = true;
    this.#line?.close();
  }

  #open(url: string): Line {
    let giveUp = () => {};
    let channel: Duplex | null = null;
    const line: Line = {
      url,
      opened: Promise.resolve(null),
      close: () => {
        if (this.#line === line) this.#line = null;
        giveUp();
        channel?.destroy();
        line.answered();
      },
      answered: () => {},
    };
    line.opened = new Promise((resolve) => {
      giveUp = this.#channels.open(url, (_error, socket) => {
        channel = socket ?? null;
        resolve(channel);
        if (socket === undefined) return line.close();
        socket.on('error', line.close).on('close', line.close);
        socket.on('data', () => line.answered());
        socket.setTimeout(idleMs, line.close);
      });
    });
    return line;
  }
}

async function sent(line: Line, path: string): Promise<void> {
  const channel = await line.opened;
  if (channel === null || channel.destroyed) return;
  const answered = new Promise<void>((resolve) => {
    line.answered = resolve;
  });
  channel.write(`POST ${path} HTTP/1.1\r\nHost: node\r\nContent-Length: 0\r\n\r\n`);
  await answered;
}
