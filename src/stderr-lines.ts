/**
 * The lines of the log on their way to stderr, which may be a file on a full disk, or a pipe whose reader is slow, stuck or gone.
 *
 * STDERR-LINES-1  Nothing waits for stderr. Lines are written in batches, at most `flushMs` later; what stderr refuses
 *     is tried again `refusedMs` later, in order. Beyond `heldMax` bytes lines are lost, and all are once the reader of a pipe has gone.
 * STDERR-LINES-2  The exit of the process writes what stderr takes at once, and drops the rest: it never waits.
 */
import { write, writeSync } from 'node:fs';
import { background, type Clock, sleep } from './kit/clock.ts';
import { systemClock } from './kit/system-clock.ts';

const flushMs = 200;
/** Until stderr is tried again, ms. A pipe takes 64 KiB at an attempt: with 200 ms a busy hub lost lines although their reader kept up. */
const refusedMs = 10;
/** Bytes at which a batch is written before `flushMs` have passed. */
const writtenAtOnce = 8 * 1024;
/** Bytes that may wait; more takes that much more memory while stderr takes nothing. */
const heldMax = 16 * 1024 * 1024;
/** Longest wait of an orderly exit. What a service manager grants a stop must exceed it and the stop of the hub. */
const exitMs = 1000;
/** Between two attempts during that wait. A pipe holds 64 KiB, so 16 MiB take 256 attempts. */
const retryMs = 2;

export class StderrLines {
  readonly #clock: Clock;
  readonly #fd: () => number;
  #isStarted = false;
  /** Lines that no write has begun. */
  #held = '';
  /** What the write in progress, or the next attempt, writes. */
  #batch: Buffer = Buffer.alloc(0);
  /** Bytes of both. */
  #bytes = 0;
  #isWriting = false;
  #isRefused = false;
  #isGone = false;
  /** Of the next attempt; null while none is due. */
  #timer: unknown = null;

  constructor(clock: Clock, fd = (): number => process.stderr.fd) {
    this.#clock = clock;
    this.#fd = fd;
  }

  write(line: string): void {
    const bytes = Buffer.byteLength(line);
    if (this.#isGone || this.#bytes + bytes > heldMax) return;
    if (!this.#isStarted) this.#start();
    this.#held += line;
    this.#bytes += bytes;
    if (this.#bytes >= writtenAtOnce && !this.#isRefused) this.#writeBatch();
    else this.#timer ??= this.#writeIn(flushMs);
  }

  /** Resolves once every line is written, or after `exitMs`. */
  async written(): Promise<void> {
    const until = this.#clock.monotonic() + exitMs;
    while (this.#bytes > 0 && this.#clock.monotonic() < until) {
      this.#writeBatch();
      await sleep(this.#clock, retryMs);
    }
  }

  #start(): void {
    this.#isStarted = true;
    process.on('exit', () => this.#writeLast());
  }

  #writeIn(ms: number): unknown {
    return background(
      this.#clock.setTimeout(() => {
        this.#timer = null;
        this.#writeBatch();
      }, ms),
    );
  }

  #writeBatch(): void {
    if (this.#isWriting || this.#bytes === 0) return;
    if (this.#batch.length === 0) {
      this.#batch = Buffer.from(this.#held);
      this.#held = '';
    }
    this.#isWriting = true;
    // Node makes a pipe non-blocking when `process.stderr` is first read: a full one refuses, and holds up no thread.
    write(this.#fd(), this.#batch, (error, count) => {
      this.#isWriting = false;
      this.#isRefused = error !== null;
      if (error?.code === 'EPIPE') return this.#giveUp();
      if (error) {
        this.#clock.clearTimeout(this.#timer);
        this.#timer = this.#writeIn(refusedMs);
        return;
      }
      this.#batch = this.#batch.subarray(count);
      this.#bytes -= count;
      if (this.#batch.length > 0 || this.#bytes >= writtenAtOnce) this.#writeBatch();
      else if (this.#bytes > 0) this.#timer ??= this.#writeIn(flushMs);
    });
  }

  #giveUp(): void {
    this.#isGone = true;
    this.#held = '';
    this.#batch = Buffer.alloc(0);
    this.#bytes = 0;
  }

  /** A write in progress is left to its thread. [STDERR-LINES-2] */
  #writeLast(): void {
    const begun = this.#isWriting ? [] : [this.#batch];
    let rest = Buffer.concat([...begun, Buffer.from(this.#held)]);
    try {
      while (rest.length > 0) rest = rest.subarray(writeSync(this.#fd(), rest));
    } catch {
      // No reader is left.
    }
    this.#giveUp();
  }
}

export const stderrLines = new StderrLines(systemClock);
