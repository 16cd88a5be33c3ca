/**
 * One row per OCPI module whose objects the hub stores: how it differs from the others. Rules read the row and never
 * compare module names, so that a new module needs only a row here and its file at the door.
 */

export type ObjectModule = 'locations' | 'tariffs' | 'sessions' | 'cdrs' | 'tokens';

export interface ModuleRow {
  /** Noun for one object in texts for operators: `session NL-CPO/101`. */
  readonly noun: string;
  /** Role of the owner; the objects go to parties of the other role. */
  readonly owner: 'CPO' | 'EMSP';
  /** True: an object goes to the one eMSP that its `cdr_token` names. False: to every routed counterpart. */
  readonly isOwned: boolean;
  /** Method that carries a whole object. */
  readonly whole: 'PUT' | 'POST';
  /** True: the path names owner and id. False: only the body does. */
  readonly hasPath: boolean;
  /** Commands and pulls look objects up by their id, without an owner. */
  readonly isFoundById: boolean;
  /** The type is part of the key, and a query parameter of paths. */
  readonly isKeyedByType: boolean;
  /** Array to which a PATCH appends; it replaces all other fields. */
  readonly appends: string | null;
  /** Its owner removes an object by DELETE. Objects of other modules say of themselves that they are over. */
  readonly isDeletable: boolean;
  /** A stored object never changes: pushing it again is a duplicate or is refused. */
  readonly isImmutable: boolean;
  /** A whole sent in place of a part is the object as of that change, not its present state: every state counts. */
  readonly isSentAsOfChange: boolean;
  readonly retryWindow: 'windowMs' | 'windowCdrMs';
  /** Size limit of an object, bytes: as it is pushed, and as stored after a merge. [D38, D76] */
  readonly bytesMax: number;
}

const mebibyte = 1024 * 1024;

const catalogue: Omit<ModuleRow, 'noun'> = {
  owner: 'CPO',
  isOwned: false,
  whole: 'PUT',
  hasPath: true,
  isFoundById: false,
  isKeyedByType: false,
  appends: null,
  isDeletable: false,
  isImmutable: false,
  isSentAsOfChange: false,
  retryWindow: 'windowMs',
  bytesMax: mebibyte,
};

export const modules: Readonly<Record<ObjectModule, ModuleRow>> = {
  locations: { ...catalogue, noun: 'location', isFoundById: true, bytesMax: 4 * mebibyte },
  tariffs: { ...catalogue, noun: 'tariff', isDeletable: true },
  sessions: {
    ...catalogue,
    noun: 'session',
    isOwned: true,
    isFoundById: true,
    appends: 'charging_periods',
    isSentAsOfChange: true,
  },
  cdrs: {
    ...catalogue,
    noun: 'cdr',
    isOwned: true,
    isFoundById: true,
    whole: 'POST',
    hasPath: false,
    isImmutable: true,
    retryWindow: 'windowCdrMs',
  },
  tokens: { ...catalogue, noun: 'token', owner: 'EMSP', isKeyedByType: true },
};

export const moduleNames = Object.keys(modules) as ObjectModule[];

export const isOwned = (module: ObjectModule): boolean => modules[module].isOwned;

/** Modules whose objects belong to one eMSP each. */
export const ownedModules = moduleNames.filter(isOwned);

/** Modules whose objects a holder of these roles receives. */
export const receivedBy = (roles: readonly { readonly role: string }[]): ObjectModule[] =>
  moduleNames.filter((module) => roles.some(({ role }) => role !== modules[module].owner));

export const isModule = (name: string): name is ObjectModule => Object.hasOwn(modules, name);

/** The eMSP–CPO pair that an object's owner and its receiver form; a routing rule permits such a pair. */
export function pairOf<Party>(module: ObjectModule, owner: Party, receiver: Party): { emsp: Party; cpo: Party } {
  return modules[module].owner === 'CPO' ? { emsp: receiver, cpo: owner } : { emsp: owner, cpo: receiver };
}
