/**
 * Who may knock at which door, told from the requirement alone: method and path go in, what each kind of caller must meet comes
 * out. [interface, Authentication 9; D2, D5, D7, D9, D10]
 *
 * Nothing here is taken from the hub's own tables, so that a mistake in them shows.
 */

/** HTTP status and OCPI status code, `401/2000`. */
export type Verdict = string;

export type OcpiCaller =
  /** Not a token of the hub's, or none, or one in a place or a scheme where it does not belong. */
  | 'stranger'
  /** Issued by the operator, not used yet. */
  | 'initial'
  /** The initial token of a partner that registered with it, or a hub token that a rotation replaced. */
  | 'spent'
  /** Of a partner that left or was suspended. */
  | 'revoked'
  /** The CPO, or the eMSP, whose objects the paths name. */
  | 'cpo'
  | 'emsp'
  /** Others of these roles, with routes to nobody. */
  | 'foreignCpo'
  | 'foreignEmsp'
  /** The CPO or eMSP of the paths, saying that it is another party. */
  | 'cpoAsOther'
  | 'emspAsOther';

interface Door {
  readonly method: string;
  /** `versions`, `details` or the identifier of a module. */
  readonly module: string;
  readonly path: string;
  /** Whether the path names the party whose object it is. */
  readonly isOwned: boolean;
}

const unauthorized: Verdict = '401/2000';
const wrongRole: Verdict = '403/2000';
const notYours: Verdict = '404/2003';
const methodOver: Verdict = '405/2000';
const refusedBody: Verdict = '200/2001';
const served: Verdict = '200/1000';

function doorOf(route: string): Door {
  const [method = '', path = ''] = route.split(' ');
  const [, first = '', second] = path.split('/');
  const module = first === 'versions' ? 'versions' : (second ?? 'details');
  return { method, module, path, isOwned: path.includes(':country_code/:party_id') };
}

/** "CPOs push locations, tariffs, sessions, CDRs, call authorize and callbacks. eMSPs call commands, pull data and push tokens." */
function mayCall({ method, module, path, isOwned }: Door): 'any' | 'cpo' | 'emsp' {
  if (['versions', 'details', 'credentials', 'hubclientinfo'].includes(module)) return 'any';
  const isRead = method === 'GET';
  // The object's own path serves its owner and its counterparts. [D20, D22]
  if (isRead && (isOwned || path === '/2.2.1/cdrs/:id')) return 'any';
  if (module === 'commands') return path.includes('/callback/') ? 'cpo' : 'emsp';
  if (path === '/2.2.1/tokens/:uid/authorize') return 'cpo';
  const pusher = module === 'tokens' ? 'emsp' : 'cpo';
  const puller = module === 'tokens' ? 'cpo' : 'emsp';
  return isRead ? puller : pusher;
}

/** What the right caller meets who sends an empty object wherever a body is due. */
function entered({ method, module, path }: Door): Verdict {
  if (module === 'credentials' && method === 'POST') return methodOver;
  // Its body is optional. [interface, Token authorization]
  if (module === 'tokens' && method === 'PUT' && path.endsWith('/authorize')) return served;
  return method === 'GET' || method === 'DELETE' ? served : refusedBody;
}

export function verdictOf(route: string, caller: OcpiCaller): Verdict {
  const door = doorOf(route);
  const registration = door.module === 'credentials' ? door.method : '';
  const changes = registration === 'PUT' || registration === 'DELETE';
  switch (caller) {
    case 'stranger':
      return unauthorized;
    case 'initial':
      if (door.module === 'versions' || door.module === 'details') return served;
      if (registration === 'POST') return refusedBody;
      return changes ? methodOver : unauthorized;
    case 'spent':
      return registration === 'POST' ? methodOver : unauthorized;
    case 'revoked':
      return changes ? methodOver : unauthorized;
    case 'cpo':
    case 'emsp':
      return ofRole(door, caller, entered(door));
    case 'foreignCpo':
      return ofRole(door, 'cpo', foreign(door));
    case 'foreignEmsp':
      return ofRole(door, 'emsp', foreign(door));
    case 'cpoAsOther':
      return ofRole(door, 'cpo', registration === 'POST' ? methodOver : refusedBody);
    case 'emspAsOther':
      return ofRole(door, 'emsp', registration === 'POST' ? methodOver : refusedBody);
  }
}

/** A wrong role is told so; at the callback it is as good as no token. [D7; interface, Authentication 7] */
function ofRole(door: Door, role: 'cpo' | 'emsp', otherwise: Verdict): Verdict {
  const right = mayCall(door);
  if (right === 'any' || right === role) return otherwise;
  return door.path.includes('/callback/') ? unauthorized : wrongRole;
}

/** Somebody else's object is as if it were not there, whoever names it and in whichever form of path. [D7, D45, D47] */
function foreign(door: Door): Verdict {
  const isOne = door.module !== 'credentials' && door.path.includes('/:') && door.module !== 'commands';
  return isOne && door.path !== '/2.2.1/tokens/:uid/authorize' ? notYours : entered(door);
}

export type AdminCaller = 'stranger' | 'viewer' | 'support' | 'operator' | 'admin';

/** Served without a token: what machines and people need before they have one, and holds nothing of the hub's. */
const openDoors: ReadonlySet<string> = new Set([
  ...['GET /healthz', 'GET /readyz', 'GET /admin/docs', 'GET /admin/v1/openapi.json', 'GET /console/', 'GET /portal/'],
]);

/**
 * What a caller of an operators' door must meet who sends text where an object is due: a viewer reads, support repairs,
 * an operator changes partners and routes, an admin does everything.
 * The statuses that will do.
 */
export function adminVerdictOf(route: string, caller: AdminCaller): readonly number[] {
  if (openDoors.has(route)) return [200];
  if (caller === 'stranger') return [401];
  const least = adminsAlone.test(route) ? 'admin' : ofSupport.test(route) ? 'support' : 'operator';
  const needed = route.startsWith('GET ') && !adminsAlone.test(route) ? 'viewer' : least;
  if (ranks.indexOf(caller) < ranks.indexOf(needed)) return [403];
  return route.startsWith('GET ') ? [200, 404] : [422];
}

const ranks: readonly AdminCaller[] = ['stranger', 'viewer', 'support', 'operator', 'admin'];
const adminsAlone =
  /^POST \/(parties|parties\/\{id\}\/(initial-token|connect|confirm-host|portal-link)|backup|erase|subject)$|^PUT \/parties\/\{id\}\/roles$|^GET \/audit/;
const ofSupport = /\/(redrive|discard|triage|probe|resolve)$|^POST \/orphans|^(POST|DELETE) \/views|^DELETE \/redrives/;

export type PortalCaller = 'stranger' | 'partner' | 'foreignPartner';

/** What a caller of the portal must meet who sends text where an object is due: what is another partner's is not there. */
export function portalVerdictOf(route: string, caller: PortalCaller): readonly number[] {
  if (caller === 'stranger') return [401];
  const isOwn = caller === 'partner' || !route.includes('{id}');
  // No delivery has the id of the sample, which names its receiver; a body is checked before a delivery is read.
  if (!isOwn || route === 'GET /deliveries/{id}') return [404];
  return route.startsWith('GET ') ? [200] : [422];
}

export type InspectorCaller = 'stranger' | 'foreignPage' | 'viewer' | 'admin';

/** Status of the answer to an offered upgrade; 101 opens it. [contract, 4] */
export const inspectorVerdicts: Readonly<Record<InspectorCaller, number>> = {
  ...{ stranger: 401, foreignPage: 403, viewer: 101, admin: 101 },
};
