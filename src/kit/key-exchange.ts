/**
 * Key exchanges of TLS that the hub accepts as a server and offers as a client. A handshake runs on the only thread, and the other side chooses
 * among them: one with a curve takes 5 ms at most, one with a prime of 8,192 bits 100 ms (ffdhe8192, also in TLS 1.3), with a prime of
 * the server's own 200 ms.
 */

/** Groups of TLS, best first. OpenSSL would add groups of primes. */
export const curves = 'X25519:P-256:P-384:P-521';

/** A list of ciphers without those of TLS 1.2 that exchange keys with a prime. */
export const withoutPrimes = (ciphers: string): string => `${ciphers}:!DHE`;
