/**
 * Parses what an operator pastes to trace, in any of the forms in which it occurs: an object's key, the path of an OCPI
 * request, an id.
 */
import { moduleNames } from '../../../domain/modules.ts';

interface TraceKey {
  /** The key that the hub is asked for: `{cc}-{pid}/{id}`, or a correlation id. */
  readonly key: string;
  /** Show only steps of this module; null for all. */
  readonly module: string | null;
}

/** `{sequence}-{cc}-{pid}` */
export const isDeliveryId = (text: string): boolean => /^\d+-[A-Za-z]{2}-[A-Za-z0-9]{1,3}$/.test(text);

/**
 * `sessions/NL-CPO/101`, `…/sessions/NL/CPO/101` and `NL-CPO/101` name one object; any other text is a correlation id.
 */
export function traceKeyOf(pasted: string): TraceKey {
  const text = pasted.trim();
  const prefixed = new RegExp(`(?:^|/)(${moduleNames.join('|')})/([A-Za-z]{2})[-/]([A-Za-z0-9]{1,3})/([^?#]+)`).exec(
    text,
  );
  if (prefixed) {
    const [, module = '', country = '', party = '', id = ''] = prefixed;
    const [first = id] = module === 'locations' ? id.split('/') : [id];
    return { key: `${country}-${party}/${first}`.replace(/^[^/]+/, (owner) => owner.toUpperCase()), module };
  }
  const plain = /^([A-Za-z]{2})[-/]([A-Za-z0-9]{1,3})\/(.+)$/.exec(text);
  if (plain) return { key: `${plain[1]?.toUpperCase()}-${plain[2]?.toUpperCase()}/${plain[3]}`, module: null };
  return { key: text, module: null };
}
