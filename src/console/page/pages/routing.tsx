/** Page of the routing rules: which eMSP and CPO may exchange data, and for any pair, who receives what and why. */
import { useState } from 'preact/hooks';
import type { PartyView } from '../../../api/parties.ts';
import type { RouteExplanation, RoutingRule, RuleSet } from '../../../api/routes.ts';
import { moduleNames } from '../../../domain/modules.ts';
import { useAction } from '../data/action.ts';
import { call, type Page, pathWith } from '../data/api.ts';
import type { ListOrder } from '../data/loaded.ts';
import { usePagedList } from '../data/paged-list.ts';
import { useQuery } from '../data/query.ts';
import { mayOperate } from '../data/session.ts';
import { Badge } from '../parts/badge.tsx';
import { Dialog } from '../parts/dialog.tsx';
import {
  Choice,
  type FilterProps,
  Form,
  fieldOf,
  Offered,
  SettledField,
  TableCard,
  useFilters,
} from '../parts/fields.tsx';
import { More } from '../parts/more.tsx';
import { Asked, Empty } from '../parts/states.tsx';
import '../style/routing.css';

/** Parties offered while typing. */
const offeredMax = 1000;

const order: ListOrder<RoutingRule> = {
  idOf: ({ emsp, cpo }) => `${emsp} ${cpo}`,
  placeOf: ({ emsp, cpo }) => `${emsp} ${cpo}`,
  isDescending: false,
};

export function Routing() {
  const [filters, change] = useFilters(['party', 'partner', 'from', 'to', 'module']);
  const field = fieldOf(filters, change);
  const { party, partner } = filters;
  const rules = usePagedList<RoutingRule>(pathWith('/routes', { party, partner }), order);
  const parties = useQuery<Page<PartyView>>(pathWith('/parties', { limit: offeredMax }), 30_000);
  const named = partiesByRole(parties.data?.items ?? []);
  return (
    <>
      <div class="page-head">
        <h1>Routing</h1>
        <div class="filters">
          <SettledField label="Party" placeholder="NL-CPO" {...field('party')} isFirst />
          {partner !== '' && (
            <button type="button" class="plain" onClick={() => change({ partner: '' })}>
              Only of partner {partner} ✕
            </button>
          )}
        </div>
      </div>
      <div class="routing">
        <div class="stack">
          {mayOperate.value && <NewRule named={named} onDone={rules.reload} />}
          <Asked query={rules} what="the routing rules">
            {(page) => (
              <>
                <Rules
                  items={page.items}
                  party={party}
                  onDone={rules.reload}
                  onExplain={({ emsp, cpo }) => change({ from: cpo, to: emsp, module: filters.module || 'locations' })}
                />
                <More list={rules} />
              </>
            )}
          </Asked>
        </div>
        <Explain filters={filters} change={change} />
      </div>
      <Offered id="emsps" values={named.EMSP} />
      <Offered id="cpos" values={named.CPO} />
      <Offered id="parties" values={[...named.CPO, ...named.EMSP]} />
    </>
  );
}

type Named = Readonly<Record<'CPO' | 'EMSP', readonly string[]>>;

function partiesByRole(partners: readonly PartyView[]): Named {
  const having = (wanted: string) =>
    partners.flatMap(({ roles }) =>
      roles.flatMap(({ role, country_code, party_id }) => (role === wanted ? [`${country_code}-${party_id}`] : [])),
    );
  return { CPO: having('CPO'), EMSP: having('EMSP') };
}

interface RulesProps {
  readonly items: readonly RoutingRule[];
  /** The filter; '' for none. */
  readonly party: string;
  readonly onDone: () => void;
  readonly onExplain: (rule: RoutingRule) => void;
}

function Rules({ items, party, onDone, onExplain }: RulesProps) {
  if (items.length === 0) {
    const hint = 'Without a rule an eMSP gets nothing of a CPO, and its drivers cannot charge there. Add one above.';
    const filtered = `No rule names ${party}: either the hub knows no such party, or it has no rule. Ids look like NL-CPO.`;
    return party === '' ? (
      <Empty title="No routing rule" hint={hint} />
    ) : (
      <Empty title={`No routing rule of ${party}`} hint={filtered} />
    );
  }
  return (
    <TableCard caption="Routing rules" columns={['eMSP', 'CPO', 'Rule', 'Actions']}>
      {items.map((rule) => (
        <RuleRow key={`${rule.emsp} ${rule.cpo}`} rule={rule} onDone={onDone} onExplain={onExplain} />
      ))}
    </TableCard>
  );
}

const fromNowOn = (emsp: string, cpo: string) => `${emsp} gets what ${cpo} sends from now on.`;

const keptWords = (released: number) =>
  released === 0 ? 'No session or CDR was kept for it.' : `Kept sessions and CDRs that are on their way: ${released}.`;

function RuleRow({ rule, onDone, onExplain }: { rule: RoutingRule } & Omit<RulesProps, 'items' | 'party'>) {
  const { emsp, cpo, active } = rule;
  const [ending, setEnding] = useState<Ending | null>(null);
  const pair = `${emsp} and ${cpo}`;
  const path = `/routes/${emsp}/${cpo}`;
  const switchOn = useAction(async () => {
    const { released } = await call<RuleSet>('PUT', path, { active: true });
    onDone();
    return `${fromNowOn(emsp, cpo)} ${keptWords(released)}`;
  });
  return (
    <tr data-row>
      <td class="mono">{emsp}</td>
      <td class="mono">{cpo}</td>
      <td>
        <Badge state={active ? 'active' : 'off'} tone={active ? 'good' : 'off'} />
      </td>
      <td>
        <div class="row">
          <button type="button" aria-label={`Explain ${pair}`} onClick={() => onExplain(rule)}>
            Explain
          </button>
          {mayOperate.value && (
            <>
              {active ? (
                <button type="button" aria-label={`Switch off … ${pair}`} onClick={() => setEnding('Switch off')}>
                  Switch off …
                </button>
              ) : (
                <button
                  type="button"
                  aria-label={`Switch on ${pair}`}
                  disabled={switchOn.isRunning}
                  onClick={() => switchOn.run()}
                >
                  Switch on
                </button>
              )}
              <button type="button" class="danger" aria-label={`Remove … ${pair}`} onClick={() => setEnding('Remove')}>
                Remove …
              </button>
            </>
          )}
        </div>
        {ending && <EndRule rule={rule} ending={ending} onDone={onDone} onClose={() => setEnding(null)} />}
      </td>
    </tr>
  );
}

type Ending = 'Switch off' | 'Remove';

interface EndRuleProps {
  readonly rule: RoutingRule;
  readonly ending: Ending;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

function EndRule({ rule: { emsp, cpo, active }, ending, onDone, onClose }: EndRuleProps) {
  const path = `/routes/${emsp}/${cpo}`;
  const end = useAction(async () => {
    if (ending === 'Remove') await call<void>('DELETE', path);
    else await call<RuleSet>('PUT', path, { active: false });
    onClose();
    onDone();
    return ending === 'Remove'
      ? `The rule of ${emsp} and ${cpo} is gone.`
      : `${emsp} no longer receives anything from ${cpo}.`;
  });
  return (
    <Dialog title={`${ending} the rule of ${emsp} and ${cpo}`} onClose={onClose}>
      <div class="stack">
        {active ? (
          <p>
            From then on {emsp} gets nothing of {cpo}, and its drivers are refused there. What is still owed over the
            rule ends as dead letters with the reason “no routing rule”; only the end of an object that the receiver has
            is still delivered. To send the dead letters after all, set the rule again and re-drive them.
          </p>
        ) : (
          <p>
            The rule is off: nothing changes for {emsp} and {cpo} until a rule is added again.
          </p>
        )}
        <button type="button" class="danger" disabled={end.isRunning} onClick={() => end.run()}>
          {ending} the rule
        </button>
      </div>
    </Dialog>
  );
}

function NewRule({ named, onDone }: { named: Named; onDone: () => void }) {
  const add = useAction(async (emsp: string, cpo: string) => {
    const path = `/routes/${encodeURIComponent(emsp)}/${encodeURIComponent(cpo)}`;
    const { released } = await call<RuleSet>('PUT', path, { active: true });
    onDone();
    return `${fromNowOn(emsp, cpo)} ${keptWords(released)} Locations and tariffs it gets by a pull or a resync.`;
  });
  return (
    <Form
      class="card"
      aria-label="New routing rule"
      onSubmit={(form) =>
        add.run(String(form.get('emsp')).trim().toUpperCase(), String(form.get('cpo')).trim().toUpperCase())
      }
    >
      <div class="inside filters">
        <label>
          Let eMSP
          <input name="emsp" list="emsps" required placeholder={named.EMSP[0] ?? 'NL-EMS'} autocomplete="off" />
        </label>
        <label>
          receive from CPO
          <input name="cpo" list="cpos" required placeholder={named.CPO[0] ?? 'NL-CPO'} autocomplete="off" />
        </label>
        <button type="submit" class="main" disabled={add.isRunning}>
          Add rule
        </button>
      </div>
    </Form>
  );
}

interface ExplainProps {
  readonly filters: Readonly<Record<'from' | 'to' | 'module', string>>;
  readonly change: (changes: Partial<Record<'from' | 'to' | 'module', string>>) => void;
}

/** Who receives what and why: every condition, met or not. */
function Explain({ filters, change }: ExplainProps) {
  const { from, to, module } = filters;
  const field = fieldOf(filters, change);
  const isWhole = /^\w{2}-\w{1,3}$/.test(from) && /^\w{2}-\w{1,3}$/.test(to);
  const asked = isWhole ? pathWith('/routes/explain', { from, to, module: module || 'locations' }) : null;
  const query = useQuery<RouteExplanation>(asked, 5_000);
  return (
    <section class="card explain" aria-labelledby="explain">
      <header>
        <h2 id="explain">Who gets what, and why</h2>
      </header>
      <div class="inside stack">
        <div class="filters">
          <PartyField label="From" {...field('from')} />
          <PartyField label="To" {...field('to')} />
          <Choice
            label="Module"
            {...field('module')}
            value={module || 'locations'}
            options={moduleNames.map((one) => [one, one] as const)}
          />
        </div>
        {asked === null ? (
          <p class="quiet">
            Name a sender and a receiver, for example a CPO and an eMSP; or press Explain beside a rule.
          </p>
        ) : (
          <Asked query={query} what="the explanation">
            {(answer) => <Answer answer={answer} />}
          </Asked>
        )}
      </div>
    </section>
  );
}

function PartyField({ label, value, onChange }: FilterProps) {
  return (
    <label>
      {label}
      <input
        list="parties"
        value={value}
        autocomplete="off"
        spellcheck={false}
        placeholder="NL-CPO"
        onChange={({ currentTarget }) => onChange(currentTarget.value.trim().toUpperCase())}
      />
    </label>
  );
}

function Answer({ answer: { from, to, module, delivers, conditions } }: { answer: RouteExplanation }) {
  return (
    <div class="stack" aria-live="polite">
      <p class={`verdict ${delivers ? 'good' : 'bad'}`}>
        {delivers ? `${to} gets the ${module} of ${from}.` : `${to} does not get the ${module} of ${from}.`}
      </p>
      <ul class="conditions">
        {conditions.map(({ holds, because }) => (
          <li key={because} class={holds ? 'good' : 'bad'}>
            <span aria-hidden="true">{holds ? '✓' : '✕'}</span>
            <span>
              <span class="unseen">{holds ? 'Met: ' : 'Not met: '}</span>
              {because}
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}
