/**
 * Replaces some methods of an object, whatever its class: the compiler checks each replacement, and no list names the
 * methods that stay.
 *
 * WITH-METHODS-1  A method that stays is bound once to the object itself, because its class may have private fields. A
 *     call costs what a call of the object costs, and its stack trace shows the object's own frames alone.
 */
export function withMethods<T extends object>(of: T, methods: Partial<T>): T {
  const view: T = Object.create(of);
  for (let level: object | null = of; level !== null && level !== Object.prototype; ) {
    for (const name of Reflect.ownKeys(level)) {
      const value: unknown = Reflect.get(of, name);
      if (typeof value === 'function' && !Object.hasOwn(view, name)) Reflect.set(view, name, value.bind(of));
    }
    level = Reflect.getPrototypeOf(level);
  }
  return Object.assign(view, methods);
}
