/** Values in encrypted texts that expire. Any process with the key can open them; nothing is stored. */

/** Seals a text for a purpose; it opens for this purpose alone, and throws for another. */
export interface Sealing {
  seal(text: string, purpose: string): string;
  open(sealed: string, purpose: string): string;
}

export interface Expiring<T> {
  seal(value: T, forMs: number): string;
  /** Null for a text that has expired, or was not sealed here for this purpose. */
  open(sealed: string): T | null;
}

/** `read` throws on what is no such value; `now`: wall clock, ms. */
export function expiring<T extends object>(
  read: (value: unknown) => T,
  purpose: string,
  secrets: Sealing,
  now: () => number,
): Expiring<T> {
  return {
    seal: (value, forMs) => secrets.seal(JSON.stringify({ ...value, ends: now() + forMs }), purpose),
    open(sealed) {
      try {
        const { ends, ...value } = JSON.parse(secrets.open(sealed, purpose));
        return typeof ends === 'number' && ends > now() ? read(value) : null;
      } catch {
        return null;
      }
    },
  };
}
