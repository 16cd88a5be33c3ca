/**
 * What a request meant that no route takes: partners whose libraries build paths in another way find from it what the
 * hub expects.
 *
 * UNKNOWN-PATH-1  A segment that begins with the name of a module counts as that module: `/locationsUS/TNM/X` lacks a
 *     slash.
 */
import { moduleNames, type ObjectModule } from '../domain/modules.ts';
import { objectName } from '../domain/object.ts';
import { partyKey, withoutLastSlashes } from '../domain/party.ts';
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

/** A route that a request may have meant. */
interface Form {
  readonly method: string;
  readonly module: string;
  /** Segments of its path. */
  readonly length: number;
  readonly text: string;
}

/**
 * The form in which the hub knows what a path seems to mean, e.g. `POST /cdrs`: of its module's routes the one of
 * nearest length with the same method, else with another that writes, each of them as OCPI has it. Null when its module
 * is unknown.
 */
export function expectedForms(routes: readonly OcpiRoute[]): (method: string, path: string) => string | null {
  const forms = routes.flatMap(({ method, path, isLenient }): Form[] => {
    const module = segmentOf(`/ocpi${path}`);
    const text = `${method} ${path.slice(`/${version}`.length).replaceAll(/:(\w+)/g, '{$1}')}`;
    return isLenient || module === '' ? [] : [{ method, module, length: path.split('/').length + 1, text }];
  });
  return (method, path) => {
    const segment = segmentOf(path);
    const ofModule = forms.filter(({ module }) => segment.startsWith(module));
    if (ofModule.length === 0) return null;
    const asked = method === 'HEAD' ? 'GET' : method;
    const same = ofModule.filter((form) => form.method === asked);
    const candidates = same.length > 0 ? same : ofModule.filter((form) => form.method !== 'GET');
    const { length } = withoutLastSlashes(path).split('/');
    const distance = (form: Form) => Math.abs(form.length - length);
    // A PATCH changes what is there, as a PUT does.
    const isUnlike = (form: Form) => Number(method === 'PATCH' && form.method !== 'PUT');
    return candidates.sort((a, b) => distance(a) - distance(b) || isUnlike(a) - isUnlike(b))[0]?.text ?? null;
  };
}

/** The path for the report: without the uid that is asked about, which names a person. */
export const shownPath = (path: string): string => path.replace(/\/[^/]+(?=\/authorize\/*$)/, '/:uid');

function decoded(id: string): string {
  try {
    return decodeURIComponent(id);
  } catch {
    return id;
  }
}
