/**
 * JSON Schemas of the OpenAPI document, made from the route tables' zod schemas by zod's own generator.
 *
 * The packages `zod-openapi` and `fastify-zod-openapi` would add 0.3 and 5.7 MB and call the same generator.
 */
import * as z from 'zod';
import { check } from '../api/checks.ts';
import { command } from '../api/commands.ts';
import { problemDetails, triage } from '../api/common.ts';
import { delivery, unforwarded } from '../api/deliveries.ts';
import { event } from '../api/events.ts';
import { backup, hubStatus } from '../api/hub.ts';
import { job } from '../api/jobs.ts';
import { savedView } from '../api/operators.ts';
import { orphan } from '../api/orphans.ts';
import { overviewOfAll } from '../api/overview.ts';
import { party } from '../api/parties.ts';
import { erasure, subject } from '../api/persons.ts';
import { pull, refusedObject } from '../api/pulls.ts';
import { explanation, routingRule } from '../api/routes.ts';
import { story } from '../api/trace.ts';

export interface JsonSchema {
  readonly [key: string]: unknown;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
}

/** Shapes to which answers refer by name. */
const named = {
  Problem: problemDetails,
  Party: party,
  Route: routingRule,
  Delivery: delivery,
  Job: job,
  Trace: story,
  Explanation: explanation,
  Event: event,
  Command: command,
  Pull: pull,
  RefusedObject: refusedObject,
  Orphan: orphan,
  Triage: triage,
  SavedView: savedView,
  StoredNotForwarded: unforwarded,
  Status: hubStatus,
  Overview: overviewOfAll,
  Backup: backup,
  Erasure: erasure,
  Subject: subject,
  Check: check,
};

type Override = NonNullable<z.core.ToJSONSchemaParams['override']>;

/** Drops patterns that only repeat the format, and the keys of records, which are always text. */
const plain: Override = ({ jsonSchema }) => {
  if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
  delete jsonSchema.propertyNames;
};

/** Answers may gain fields, so their schemas forbid no additional ones. */
const open: Override = (context) => {
  plain(context);
  if (context.jsonSchema.additionalProperties === false) delete context.jsonSchema.additionalProperties;
};

/** The schema of a request. */
export function asked(schema: z.ZodType): JsonSchema {
  return bare(z.toJSONSchema(schema, { io: 'input', override: plain }));
}

export interface AnswerSchemas {
  readonly components: Readonly<Record<string, JsonSchema>>;
  /** The schema of one of the answers. */
  of(answer: z.core.$ZodType): JsonSchema;
}

const uri = (id: string) => `#/components/schemas/${id}`;

export function answerSchemas(answers: readonly z.core.$ZodType[]): AnswerSchemas {
  const ids = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(named)) ids.add(schema, { id });
  for (const [index, answer] of answers.entries()) if (!ids.has(answer)) ids.add(answer, { id: `answer ${index}` });
  const { schemas } = z.toJSONSchema(ids, { uri, override: open });
  const shapeOf = (id: string) => bare(schemas[id] ?? {});
  return {
    components: Object.fromEntries(Object.keys(named).map((id) => [id, shapeOf(id)])),
    of(answer) {
      const id = ids.get(answer)?.id;
      if (id === undefined) throw new Error('this is not one of the answers');
      return id in named ? { $ref: uri(id) } : shapeOf(id);
    },
  };
}

/** Without what the document as a whole states. */
function bare({ $schema, $id, ...schema }: z.core.JSONSchema.BaseSchema): JsonSchema {
  // Zod's type allows for boolean schemas, of which its generator writes only the `additionalProperties` that nothing here reads.
  return schema as JsonSchema;
}
