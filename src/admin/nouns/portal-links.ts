/** Route of the links by which partners sign in to their portal. */
import { z } from 'zod';
import { partnerId } from '../../api/fields.ts';
import { portalLink } from '../../api/portal.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, route } from '../route.ts';

const wanted = z.strictObject({
  hours: z.int().min(1).max(168).default(24).meta({ description: 'until it expires' }),
});

export function portalLinks(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'POST',
      path: '/parties/{id}/portal-link',
      // Its portal issues initial tokens.
      role: 'admin',
      summary: 'Make a link by which a partner signs in to its portal, for 8 hours each time',
      status: 201,
      params: z.strictObject({ id: partnerId }),
      body: wanted.default({ hours: 24 }),
      answer: portalLink,
      run: ({ params: { id }, body: { hours } }) => operations.portalLink(id, hours),
    }),
  ];
}
