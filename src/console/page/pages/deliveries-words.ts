/** Explains outcomes of attempts and deliveries in plain words. */

const meanings: Readonly<Record<string, string>> = {
  delivered: 'the receiver took it',
  timeout: 'the receiver did not answer in time',
  unavailable: 'the receiver could not be reached, or answered with an error of its own',
  throttled: 'the receiver asked for fewer requests',
  auth_error: 'the receiver refused the token, or is suspended',
  not_found: 'the receiver does not know the object, or has no endpoint for it',
  client_error: 'the receiver rejected the request',
  invalid_response: 'the answer was not OCPI',
  circuit_open: 'the circuit was open: the hub held the call back',
  expired: 'expired before delivery',
};

/** Classes with which a delivery ends that did not arrive. */
export const failures: readonly string[] = Object.keys(meanings).filter((each) => each !== 'delivered');

export const meaningOf = (outcome: string): string => meanings[outcome] ?? 'see the attempts';
