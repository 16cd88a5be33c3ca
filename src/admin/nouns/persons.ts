/**
 * Routes `/subject` and `/erase`: a person's data. Both are POST, so that uid and contract id stand in the body and in no
 * URL that a proxy logs; so neither is open to a viewer.
 */
import * as z from 'zod';
import { partyId } from '../../api/fields.ts';
import { erasure, subject } from '../../api/persons.ts';
import type { Person } from '../../domain/person.ts';
import type { Operations } from '../../hub/ports/operator.ts';
import { type AdminRoute, route } from '../route.ts';

const name = z.string().min(1).max(255).exactOptional();
const given = {
  uid: name.describe('uid of one of the person’s tokens, in either case'),
  contract: name.describe('contract id (eMAID), in either case'),
  party: partyId.exactOptional().describe('only tokens of this eMSP, and what concerns these'),
};
const isSome = ({ uid, contract }: { uid?: string; contract?: string }): boolean =>
  uid !== undefined || contract !== undefined;
const some = 'expected uid, contract or both';

const personOf = ({ uid = null, contract = null, party = null }: Partial<Person>): Person => ({ uid, contract, party });

export function persons(operations: Operations): AdminRoute[] {
  return [
    route({
      method: 'POST',
      path: '/subject',
      role: 'admin',
      summary: 'Export everything that is stored of a person',
      body: z.strictObject(given).refine(isSome, some),
      answer: subject,
      run: ({ body }) => operations.subject(personOf(body)),
    }),
    route({
      method: 'POST',
      path: '/erase',
      role: 'admin',
      summary: "Remove a person's tokens, and replace the person's names with digests in rows, log and deliveries",
      body: z
        .strictObject({
          ...given,
          force: z.boolean().default(false).describe('also while deliveries of the data are still owed'),
          dry_run: z.boolean().default(false),
        })
        .refine(isSome, some),
      answer: erasure,
      run: ({ body: { force, dry_run: dryRun, ...person }, trace }) =>
        operations.erase(personOf(person), { force, dryRun }, trace),
    }),
  ];
}
