/**
 * Output of the verbs: answers go to stdout, everything else to stderr, so that the answers can be piped.
 *
 * SCREEN-1  Only a terminal gets colour and shortened cells, and no colour when NO_COLOR is set.
 */
import { createInterface } from 'node:readline/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { paintFor } from '../kit/paint.ts';
import { type Column, type Page, table } from './table.ts';

export class Screen {
  readonly isJson: boolean;
  readonly paint = paintFor(process.stdout, process.env);

  constructor(isJson: boolean) {
    this.isJson = isJson;
  }

  get page(): Page {
    // Set on a terminal only; COLUMNS is not read, because shells may export it to commands whose output is piped.
    return { width: process.stdout.columns || Infinity, paint: this.paint, now: Date.now() };
  }

  lines(lines: readonly string[]): void {
    if (lines.length > 0) process.stdout.write(`${lines.join('\n')}\n`);
  }

  /** Writes pieces as they come, as fast as the reader of the output takes them. */
  async copy(pieces: AsyncIterable<Uint8Array>): Promise<void> {
    await pipeline(Readable.from(pieces), process.stdout, { end: false }).catch((error: NodeJS.ErrnoException) => {
      // The reader has closed the pipe, as `head` does.
      if (error.code !== 'EPIPE') throw error;
    });
  }

  /** Writes one JSON document as a line. */
  json(answer: unknown): void {
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }

  /** Writes a remark to stderr. */
  say(line: string): void {
    process.stderr.write(`${line}\n`);
  }

  /** Writes the answer as JSON under `--json`, else as the lines made of it. */
  answer<T>(answer: T, lines: (answer: T, page: Page) => readonly string[]): void {
    if (this.isJson) this.json(answer);
    else this.lines(lines(answer, this.page));
  }

  /** Writes a list as a table. Says what to do next when it is empty, and how to see the rest when there is more. */
  list<T>(
    found: { items: readonly T[]; next_cursor: string | null },
    columns: readonly Column<T>[],
    whenEmpty: string,
  ): void {
    if (this.isJson) this.json(found);
    else if (found.items.length > 0) this.lines(table(columns, found.items, this.page));
    if (found.items.length === 0) this.say(whenEmpty);
    else if (found.next_cursor !== null && !this.isJson) this.say('There are more: --limit shows more of them.');
  }

  /** Whether a person at a terminal can answer a question. */
  get isAnswerable(): boolean {
    return process.stdin.isTTY === true && process.stderr.isTTY === true;
  }

  /** Asks a yes/no question; any answer but yes counts as no. */
  async ask(question: string): Promise<boolean> {
    const dialog = createInterface({ input: process.stdin, output: process.stderr });
    try {
      return /^y(es)?$/i.test((await dialog.question(`${question} [y/N] `)).trim());
    } catch {
      return false;
    } finally {
      dialog.close();
    }
  }

  /** A progress line: redrawn in place on a terminal, written once per change elsewhere. */
  progress(): { show(done: number, total: number, words: string): void; end(): void } {
    const isTerminal = process.stderr.isTTY === true;
    let last = '';
    return {
      show: (done, total, words) => {
        const line = isTerminal ? `${bar(done, total)} ${words}` : words;
        if (line === last) return;
        last = line;
        process.stderr.write(isTerminal ? `\r\u001b[K${line}` : `${line}\n`);
      },
      end: () => {
        if (isTerminal && last !== '') process.stderr.write('\n');
      },
    };
  }
}

const barWidth = 30;

function bar(done: number, total: number): string {
  const filled = total > 0 ? Math.min(barWidth, Math.round((done / total) * barWidth)) : barWidth;
  return `[${'█'.repeat(filled)}${'·'.repeat(barWidth - filled)}]`;
}
