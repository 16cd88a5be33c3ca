/**
 * What a request meant that no route takes: partners whose libraries build paths in another way find from it what the
 * hub expects.
 *
 * UNKNOWN-PATH-1  A segment that begins with the name of a module counts as that module: `/locationsUS/TNM/X` lacks a
 *     slash.
 */
import { moduleNames, type ObjectModule } from '../domain/modules.ts';
import { objectName } from '../domain/object.ts';
import { partyKey } from '../domain/party.ts';
import { type OcpiRoute, version } from './route.ts';

/** The segment of the module; empty outside the version. */
const segmentOf = (path: string): string => {
  const [, door, release, segment = ''] = path.split('/', 4);
  return door === 'ocpi' && release === version ? segment : '';
};

interface Meant {
  readonly module: ObjectModule | null;
  /** `{cc}-{pid}/{id}`; null when the path names none. */
  readonly object: string | null;
}

const objectPath = /^\/*([A-Za-z]{2})\/([A-Za-z0-9]{1,3})\/([^/]+)/;

/** Without query and fragment. */
export const pathOf = ({ url }: { readonly url: string }): string => url.replace(/[?#].*$/, '');

/** `path` is that of the request, without a query. */
export function meantBy(path: string): Meant {
  const segment = segmentOf(path);
  const module = moduleNames.find((name) => segment.startsWith(name));
  if (module === undefined) return { module: null, object: null };
  const below = path.slice(`/ocpi/${version}/${module}`.length);
  const [, country = '', party = '', id = ''] = objectPath.exec(below) ?? [];
  if (id === '' || below.endsWith('/authorize')) return { module, object: null };
  return { module, object: objectName({ owner: partyKey(country, party), id: decoded(id) }) };
}

/**
 * The form in which the hub knows what the path seems to mean, e.g. `POST /cdrs`: of its module's routes the one of
 * nearest length with the same method, else with another that writes, each of them as OCPI has it. Null when its module
 * is unknown.
 */
export function expectedForm(routes: readonly OcpiRoute[], method: string, path: string): string | null {
  const segments = path.replace(/\/+$/, '').split('/');
  const segment = segmentOf(path);
  const ofModule = routes.filter((route) => {
    const module = segmentOf(`/ocpi${route.path}`);
    return !route.isLenient && module !== '' && segment.startsWith(module);
  });
  const asked = method === 'HEAD' ? 'GET' : method;
  const same = ofModule.filter((route) => route.method === asked);
  const candidates = same.length > 0 ? same : ofModule.filter((route) => route.method !== 'GET');
  const distance = ({ path: own }: OcpiRoute) => Math.abs(own.split('/').length + 1 - segments.length);
  const [nearest] = candidates.sort((a, b) => distance(a) - distance(b));
  if (!nearest) return null;
  const form = nearest.path.slice(`/${version}`.length).replaceAll(/:(\w+)/g, '{$1}');
  return `${nearest.method} ${form}`;
}

/** The path for the report: without the uid that is asked about, which names a person. */
export const shownPath = (path: string): string => path.replace(/[^/]+(?=\/authorize\/*$)/, ':uid');

function decoded(id: string): string {
  try {
    return decodeURIComponent(id);
  } catch {
    return id;
  }
}
