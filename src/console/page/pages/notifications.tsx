/**
 * Page of notifications: who is notified of what needs operators, by webhook and by mail, what each is owed, and a test of each.
 */
import type { WebhookRedrive, WebhookTest, WebhookView } from '../../../api/webhooks.ts';
import { say, useAction } from '../data/action.ts';
import { call, type Page } from '../data/api.ts';
import { count, many } from '../data/format.ts';
import { useQuery } from '../data/query.ts';
import { mayAct, mayOperate } from '../data/session.ts';
import { Badge } from '../parts/badge.tsx';
import { TableCard } from '../parts/fields.tsx';
import { Asked, Dash, Empty } from '../parts/states.tsx';
import { Instant } from '../parts/time.tsx';

const everyMs = 5_000;
/** More than a hub has. */
const path = '/webhooks?limit=1000';

export function Notifications() {
  const query = useQuery<Page<WebhookView>>(path, everyMs);
  return (
    <>
      <div class="page-head">
        <h1>Notifications</h1>
      </div>
      <Asked query={query} what="the webhooks">
        {({ items }) =>
          items.length === 0 ? (
            <Empty
              title="Nobody is notified"
              hint="ocpi-hub webhooks set {id} {url} makes a webhook; HUB_SMTP_URL, HUB_MAIL_FROM and HUB_MAIL_TO send mail."
            />
          ) : (
            <Receivers items={items} onDone={query.reload} />
          )
        }
      </Asked>
    </>
  );
}

function Receivers({ items, onDone }: { items: readonly WebhookView[]; onDone: () => void }) {
  // What a narrow screen must show comes first: whether it is taken, and why not.
  const columns = ['Webhook', 'State', 'Answer', 'Owed', 'Dead', 'Last attempt', 'URL', 'Kinds', 'Party', ''];
  return (
    <TableCard
      caption="Receivers of notifications"
      columns={mayAct.value ? columns : columns.slice(0, -1)}
      numbers={['Owed', 'Dead']}
    >
      {items.map((one) => (
        <tr key={one.id} data-row>
          <td class="mono">{one.id}</td>
          <td>
            <State one={one} />
          </td>
          <td class="words">{one.last === null ? <Dash /> : answerText(one.last)}</td>
          <td class="number">{count(one.owed)}</td>
          <td class={one.dead > 0 ? 'number urgent' : 'number'}>{count(one.dead)}</td>
          <td>
            <Instant value={one.last?.at ?? null} />
          </td>
          <td class="mono">{one.url}</td>
          <td>{one.kinds?.join(', ') ?? 'all'}</td>
          <td class="mono">{one.party ?? 'all'}</td>
          {mayAct.value && (
            <td>
              <Actions one={one} onDone={onDone} />
            </td>
          )}
        </tr>
      ))}
    </TableCard>
  );
}

const answerText = ({ http_status, answer }: { http_status: number | null; answer: string }): string =>
  [http_status === null ? '' : `HTTP ${http_status}`, answer].filter((text) => text !== '').join(' ');

function State({ one: { active, last } }: { one: WebhookView }) {
  if (!active) return <Badge state="not active" tone="off" />;
  if (last === null) return <Badge state="not tried" />;
  return last.ok ? <Badge state="taken" tone="good" /> : <Badge state="not taken" tone="bad" />;
}

function Actions({ one: { id, dead }, onDone }: { one: WebhookView; onDone: () => void }) {
  const at = `/webhooks/${encodeURIComponent(id)}`;
  const test = useAction(async () => {
    const tested = await call<WebhookTest>('POST', `${at}/test`);
    if (tested.ok) return `${id} took the test: ${answerText(tested)}`;
    say('failed', `${id} did not take the test: ${answerText(tested)}`);
    return null;
  });
  const redrive = useAction(async () => {
    const { queued } = await call<WebhookRedrive>('POST', `${at}/redrive`);
    onDone();
    return `${many(queued, `dead letter of ${id} is`, `dead letters of ${id} are`)} owed again.`;
  });
  return (
    <div class="row">
      {mayOperate.value && (
        <button type="button" aria-label={`Test ${id}`} disabled={test.isRunning} onClick={() => test.run()}>
          Test
        </button>
      )}
      {dead > 0 && (
        <button type="button" aria-label={`Re-drive ${id}`} disabled={redrive.isRunning} onClick={() => redrive.run()}>
          Re-drive
        </button>
      )}
    </div>
  );
}
