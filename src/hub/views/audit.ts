/** The filter of the audit log. */
import type { AuditEntry, AuditFilter } from '../../api/audit.ts';

/** Null: every entry fits. Verb and about are searched for the text, in any case. */
export function auditFits({ operator, verb, about, from, to }: AuditFilter): ((entry: AuditEntry) => boolean) | null {
  const has = (text: string, part: string | undefined) =>
    part === undefined || text.toLowerCase().includes(part.toLowerCase());
  if ([operator, verb, about, from, to].every((value) => value === undefined)) return null;
  return (entry) =>
    (operator === undefined || entry.operator === operator) &&
    has(entry.verb, verb) &&
    has(entry.about, about) &&
    (from === undefined || Date.parse(entry.at) >= Date.parse(from)) &&
    (to === undefined || Date.parse(entry.at) < Date.parse(to));
}
