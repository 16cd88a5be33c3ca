/**
 * A check of a partner's endpoints: begun here, seen step by step, and what it found with a button for the setting that heals it.
 */
import { useState } from 'preact/hooks';
import type { CheckStep, CheckView, FindingView } from '../../../api/checks.ts';
import { checkSummary, findingParts } from '../../../domain/findings.ts';
import { isInForce, onTopOf, type PartnerChoices, settingText } from '../../../domain/partner-settings.ts';
import { useAction } from '../data/action.ts';
import { call, pathWith } from '../data/api.ts';
import { many } from '../data/format.ts';
import { useQuery } from '../data/query.ts';
import { isPortal, mayCheck, mayOperate } from '../data/session.ts';
import { Badge, type Tone } from '../parts/badge.tsx';
import { Card, type PartnerProps } from '../parts/card.tsx';
import { Answers, Dialog } from '../parts/dialog.tsx';
import { Form } from '../parts/fields.tsx';
import { useReason } from '../parts/reason.tsx';
import { Asked, Empty } from '../parts/states.tsx';
import { Instant } from '../parts/time.tsx';
import '../style/check.css';

const runningMs = 500;
const restingMs = 10_000;

interface Checks {
  readonly items: readonly CheckView[];
}

const soonerWhileRunning = (found: Checks | undefined) =>
  found?.items[0]?.state === 'RUNNING' ? runningMs : restingMs;

export function Check({ party, reload }: PartnerProps) {
  const path = pathWith('/checks', { party: party.id });
  const query = useQuery<Checks>(path, soonerWhileRunning);
  const [last] = query.data?.items ?? [];
  return (
    <Card title="Check against OCPI" label="Check" class="check" beside={last && <Badge state={last.state} />}>
      {mayCheck.value && party.url !== null && (
        <CheckForm id={party.id} isRunning={last?.state === 'RUNNING'} onBegun={query.reload} />
      )}
      <Asked query={query} what="checks">
        {() =>
          last ? (
            <Result check={last} party={party} reload={reload} />
          ) : (
            <Empty
              title="Not checked yet"
              hint="A check tries what the hub will do once traffic flows, and says what will break."
            />
          )
        }
      </Asked>
    </Card>
  );
}

function CheckForm({ id, isRunning, onBegun }: { id: string; isRunning: boolean; onBegun: () => void }) {
  const reason = useReason();
  const begin = useAction(async (write: boolean) => {
    await call('POST', reason.given(`/parties/${id}/check`), { write });
    onBegun();
    return null;
  });
  return (
    <Form class="inside row" onSubmit={(form) => begin.run(form.get('write') === 'on')}>
      <button type="submit" disabled={isRunning || begin.isRunning}>
        {isRunning ? 'Checking …' : `Check ${isPortal ? 'your' : 'its'} endpoints`}
      </button>
      {mayOperate.value && (
        <>
          <label>
            <input type="checkbox" name="write" />
            also send test objects and a test command
          </label>
          {reason.field}
        </>
      )}
    </Form>
  );
}

function Result({ check, party, reload }: PartnerProps & { check: CheckView }) {
  const { state, write, steps, findings, error, started_at } = check;
  return (
    <div class="inside stack" role="status">
      <p>
        {state === 'DONE' ? (
          <strong>{checkSummary(check)}</strong>
        ) : state === 'FAILED' ? (
          <strong class="urgent">The check failed: {error ?? 'the hub gives no reason'}.</strong>
        ) : (
          <strong>{check.calls} calls so far</strong>
        )}{' '}
        <span class="quiet">
          <Instant value={started_at} />, {write ? 'with test objects' : 'it only read'}
        </span>
      </p>
      <ol class="tried">
        {steps.map((step) => (
          <Step key={step.name} step={step} />
        ))}
      </ol>
      {findings.length > 0 && (
        <ul class="findings">
          {findings.map((finding) => (
            <Finding key={`${finding.module} ${finding.name}`} finding={finding} party={party} reload={reload} />
          ))}
        </ul>
      )}
    </div>
  );
}

const marks = { done: '✓', running: '◐', open: '○' } as const;
const words = { done: 'done', running: 'running', open: 'not tried' } as const;

function Step({ step: { name, state, calls, findings } }: { step: CheckStep }) {
  const counts = [many(calls, 'call'), findings > 0 && many(findings, 'finding')];
  return (
    <li class={findings > 0 ? `${state} found` : state}>
      <span aria-hidden="true">{findings > 0 ? '▲' : marks[state]}</span>
      <span class="unseen">{words[state]}: </span>
      {name} {state !== 'open' && <span class="quiet">{counts.filter(Boolean).join(', ')}</span>}
    </li>
  );
}

const tones: Readonly<Record<FindingView['severity'], Tone>> = { error: 'bad', warning: 'wait', note: 'info' };

function Finding({ finding, party, reload }: PartnerProps & { finding: FindingView }) {
  const { name, severity, module, settings } = finding;
  const healing = settings as Partial<PartnerChoices> | undefined;
  // The check says what was in force when it ran, the partner what is now.
  const healed = healing !== undefined && isInForce(healing, party.settings);
  const shown = healing === undefined ? finding : { ...finding, healed };
  return (
    <li>
      <div class="row">
        <Badge state={severity} tone={tones[healed && severity === 'error' ? 'warning' : severity]} />
        <strong class="mono">{name}</strong> <span class="quiet">{module}</span>
      </div>
      <dl class="facts">
        {findingParts(shown).map(([label, text]) => (
          <div key={label} class="part">
            <dt>{label}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      {healing && !healed && mayOperate.value && <Heal party={party} healing={healing} reload={reload} />}
    </li>
  );
}

function Heal({ party: { id, settings }, healing, reload }: PartnerProps & { healing: Partial<PartnerChoices> }) {
  const [isAsking, setAsking] = useState(false);
  const reason = useReason();
  const changes = onTopOf(settings, healing);
  const { isRunning, run } = useAction(async () => {
    await call('PATCH', reason.given(`/parties/${id}`), changes);
    reload();
    setAsking(false);
    return `${settingText(changes)} is set for ${id}.`;
  });
  return (
    <div class="row">
      <button type="button" onClick={() => setAsking(true)}>
        Set {settingText(healing)}
      </button>
      {isAsking && (
        <Dialog title={`Set ${settingText(changes)} for ${id}?`} onClose={() => setAsking(false)}>
          <div class="stack">
            <p>The hub makes up for the habit from then on. Another check says what is left.</p>
            {reason.field}
            <Answers label="Set it" isDisabled={isRunning} onYes={() => run()} onNo={() => setAsking(false)} />
          </div>
        </Dialog>
      )}
    </div>
  );
}
