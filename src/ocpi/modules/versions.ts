/**
 * The Versions module: `/ocpi/versions` and `/ocpi/2.2.1`, both open to initial tokens. [interface, Versions; D9]
 */
import { anyParty } from '../caller.ts';
import { addressOf, data, type OcpiModule, type OcpiRoute, version } from '../route.ts';

/** The two routes; the version details list `modules`. */
export function versions(modules: readonly OcpiModule[]): OcpiRoute[] {
  const open = { method: 'GET', by: anyParty, budget: 'other', onboarding: 'open' } as const;
  return [
    { ...open, path: '/versions', handle: (hub) => data([{ version, url: addressOf(hub, '') }]) },
    {
      ...open,
      path: `/${version}`,
      handle: (hub, { caller }) => {
        const { hidden_modules: hidden } = caller.partner.settings;
        const shown = modules.filter(({ identifier }) => !hidden.includes(identifier));
        const endpoints = shown.flatMap(({ identifier, roles }) =>
          roles.map((role) => ({ identifier, role, url: addressOf(hub, `/${identifier}`) })),
        );
        if (shown.length < modules.length) {
          hub.used({ partner: caller.partner.id, module: 'versions', object: null }, ['strict-modules']);
        }
        return data({ version, endpoints });
      },
    },
  ];
}
