/** Makes a simulated partner misbehave, for a module or for requests whose `METHOD /path` matches a pattern. */

export type Fault =
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly body: string;
      readonly headers: Record<string, string>;
    }
  | { readonly kind: 'hang' }
  /** Destroys the socket. `applied`: after the request took effect, as if only the answer was lost. */
  | { readonly kind: 'drop'; readonly applied: boolean }
  /** Answers with bytes that are not HTTP. */
  | { readonly kind: 'garble' }
  /** Answers correctly after a delay. */
  | { readonly kind: 'delay'; readonly ms: number };

export interface Often {
  /** How many requests get the fault; by default every one until `reset`. */
  readonly times?: number;
}

export interface Knob {
  answer(status: number, body?: unknown, options?: Often & { readonly headers?: Record<string, string> }): void;
  /** Answers an error to the next `times` requests, then behaves normally. */
  fail(times: number, status?: number): void;
  hang(options?: Often): void;
  drop(options?: Often & { readonly applied?: boolean }): void;
  garble(options?: Often): void;
  delay(ms: number, options?: Often): void;
  /** Removes the faults of this knob. */
  reset(): void;
}

interface Set {
  readonly target: string | RegExp;
  readonly fault: Fault;
  left: number;
}

export class Knobs {
  #sets: Set[] = [];

  /** The knob of a module (`sessions`, `versions`, `commands`, …) or of requests whose `METHOD /path?query` matches. */
  at(target: string | RegExp): Knob {
    const add = (fault: Fault, times = Number.POSITIVE_INFINITY) =>
      void this.#sets.push({ target, fault, left: times });
    return {
      answer: (status, body = '', options = {}) => {
        const text = typeof body === 'string' ? body : JSON.stringify(body);
        add({ kind: 'answer', status, body: text, headers: options.headers ?? {} }, options.times);
      },
      fail: (times, status = 500) => add({ kind: 'answer', status, body: 'out of order', headers: {} }, times),
      hang: (options) => add({ kind: 'hang' }, options?.times),
      drop: (options) => add({ kind: 'drop', applied: options?.applied ?? false }, options?.times),
      garble: (options) => add({ kind: 'garble' }, options?.times),
      delay: (ms, options) => add({ kind: 'delay', ms }, options?.times),
      reset: () => {
        this.#sets = this.#sets.filter((set) => String(set.target) !== String(target));
      },
    };
  }

  resetAll(): void {
    this.#sets = [];
  }

  /** The fault for this request, or null; the fault that was set first wins. */
  meet(module: string, method: string, path: string): Fault | null {
    const met = this.#sets.find(({ target, left }) => {
      if (left <= 0) return false;
      return typeof target === 'string' ? target === module : target.test(`${method} ${path}`);
    });
    if (!met) return null;
    met.left--;
    return met.fault;
  }
}
