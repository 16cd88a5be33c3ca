/**
 * Which events trims kept of the streams that they met last, so that a trim need not look for them: finding one costs
 * more than all the rest of trimming an event. Bounded; a stream that it does not know is looked up in the index by
 * stream.
 */
import type { Seq } from '../contract.ts';

/** Streams of one generation: about 10 MiB of memory. */
const STREAMS_MAX = 65_536;

export class KeptIndex {
  #young = new Map<string, readonly Seq[]>();
  #old = new Map<string, readonly Seq[]>();

  /** Undefined when the stream is not known. */
  get(stream: string): readonly Seq[] | undefined {
    return this.#young.get(stream) ?? this.#old.get(stream);
  }

  /** The older generation is dropped whole when the younger one is full. */
  set(stream: string, kept: readonly Seq[]): void {
    if (this.#young.size >= STREAMS_MAX) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(stream, kept);
  }

  /** Every stream is looked up again. */
  clear(): void {
    this.#young = new Map();
    this.#old = new Map();
  }
}
