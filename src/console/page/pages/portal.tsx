/**
 * The portal of a partner: its queue, circuits and endpoints, its dead letters to re-drive, what it does wrong, a check of its
 * endpoints, and a new token. A link brings it here, whose fragment the hub exchanges for a session.
 */
import '../style/partner.css';
import { useEffect, useState } from 'preact/hooks';
import type { DeliveryView } from '../../../api/deliveries.ts';
import type { PartyView, PortalSession } from '../../../api/parties.ts';
import { useAction } from '../data/action.ts';
import { ApiError, askPlain, call, type Page, pathWith } from '../data/api.ts';
import { count } from '../data/format.ts';
import { useCaller, useQuery } from '../data/query.ts';
import { api, caller, signedOutBecause, signIn, signOut, token } from '../data/session.ts';
import { Badge } from '../parts/badge.tsx';
import { Card } from '../parts/card.tsx';
import { Choice, Table } from '../parts/fields.tsx';
import { Notices } from '../parts/notices.tsx';
import { Asked, Empty } from '../parts/states.tsx';
import { Instant } from '../parts/time.tsx';
import { meaningOf } from './deliveries-words.ts';
import { NewToken } from './partner-actions.tsx';
import { Check } from './partner-check.tsx';
import { Circuits, Endpoints, Queue } from './partner-facts.tsx';
import { Report } from './partner-report.tsx';

const everyMs = 5_000;
const shownMax = 50;

/** The link that the address brings, which then keeps nothing of it. */
function linkTaken(): string {
  const link = location.hash.slice(1);
  if (link === '') return '';
  history.replaceState(null, '', location.pathname);
  // The link decides the partner, also when another one is signed in.
  signOut();
  return link;
}

export function Portal() {
  const [link, setLink] = useState(linkTaken);
  useEffect(() => {
    // A link that is opened in this tab loads no page.
    const come = () => {
      const next = linkTaken();
      if (next !== '') setLink(next);
    };
    addEventListener('hashchange', come);
    return () => removeEventListener('hashchange', come);
  }, []);
  return (
    <>
      {token.value === null ? <Arrival key={link} link={link} onIn={() => setLink('')} /> : <SignedIn />}
      <Notices />
    </>
  );
}

/** Exchanges the link for a session. */
function Arrival({ link, onIn }: { link: string; onIn: () => void }) {
  const [error, setError] = useState<ApiError | null>(null);
  const [tries, setTries] = useState(0);
  useEffect(() => {
    if (link === '') return;
    let isOver = false;
    setError(null);
    askPlain<PortalSession>('POST', `${api}/session`, { link }).then(
      ({ token: given, partner }) => {
        if (isOver) return;
        signIn(given, { name: partner, role: 'partner' });
        onIn();
      },
      (failure: unknown) => {
        if (!(failure instanceof ApiError)) throw failure;
        if (!isOver) setError(failure);
      },
    );
    return () => {
      isOver = true;
    };
  }, [tries]);
  const notice = error?.message ?? signedOutBecause.value;
  return (
    <main class="sign-in">
      <div class="card stack inside">
        <h1>Portal of an OCPI hub</h1>
        {notice && (
          <p class="error" role="alert">
            {notice}
          </p>
        )}
        {link !== '' && error === null ? (
          <p class="loading">Signing in …</p>
        ) : (
          <p class="quiet">Open the link that the operator of the hub gave you, or ask for a new one.</p>
        )}
        {error !== null && error.status !== 401 && (
          <button type="button" onClick={() => setTries(tries + 1)}>
            Try again
          </button>
        )}
      </div>
    </main>
  );
}

function SignedIn() {
  useCaller();
  const id = caller.value?.name;
  useEffect(() => {
    document.title = `${id ?? 'Portal'} · ocpi-hub`;
  }, [id]);
  return (
    <div class="frame">
      <header class="top">
        <span class="brand">
          <img src="/portal/icon.svg" alt="" width="22" height="22" />
          <span>ocpi-hub</span>
        </span>
        <div class="top-end">
          <span class="quiet">{id}</span>
          <button type="button" class="plain" onClick={() => signOut()}>
            Sign out
          </button>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        {id !== undefined && <Own id={id} />}
      </main>
    </div>
  );
}

function Own({ id }: { id: string }) {
  const query = useQuery<PartyView>(`/parties/${encodeURIComponent(id)}`, everyMs);
  const [isRotating, setRotating] = useState(false);
  return (
    <div class="partner stack">
      <div class="page-head">
        <div class="row">
          <h1 class="mono">{id}</h1>
          {query.data && <Badge state={query.data.status} />}
        </div>
        <button type="button" onClick={() => setRotating(true)}>
          New initial token
        </button>
      </div>
      <Asked query={query} what={`partner ${id}`}>
        {(party) => (
          <>
            <DeadLetters party={party} />
            <div class="halves">
              <div class="stack">
                <Queue party={party} />
                <Circuits party={party} reload={query.reload} />
                <Endpoints party={party} reload={query.reload} />
              </div>
              <div class="stack">
                <Check party={party} reload={query.reload} />
                <Report id={id} />
              </div>
            </div>
            {isRotating && (
              <NewToken party={party} isRegistered={party.url !== null} onClose={() => setRotating(false)} />
            )}
          </>
        )}
      </Asked>
    </div>
  );
}

/** The button is in sight on a telephone, too. */
const columns = ['Object', 'Action', 'Module', 'Accepted', 'Attempts', 'Reason'];

function DeadLetters({ party: { roles } }: { party: PartyView }) {
  const parties = [...new Set(roles.map(({ country_code, party_id }) => `${country_code}-${party_id}`))];
  const [receiver, setReceiver] = useState(parties[0] ?? '');
  const query = useQuery<Page<DeliveryView>>(
    pathWith('/deliveries', { state: 'DEAD', receiver, limit: shownMax }),
    everyMs,
  );
  const redrive = useAction(async (delivery: string) => {
    await call('POST', `/deliveries/${encodeURIComponent(delivery)}/redrive`);
    query.reload();
    // Its row goes, and the button with it.
    document.getElementById('main')?.focus();
    return `Delivery ${delivery} is sent again.`;
  });
  return (
    <Card
      title="Dead letters"
      beside={
        parties.length > 1 && (
          <Choice label="Receiver" value={receiver} options={parties.map((one) => [one, one])} onChange={setReceiver} />
        )
      }
    >
      <Asked query={query} what="dead letters">
        {({ items, next_cursor }) =>
          items.length === 0 ? (
            <Empty
              title="No dead letters"
              hint="Everything that was due to you has arrived, or is still being tried."
            />
          ) : (
            <>
              <Table caption="Dead letters, newest first" columns={columns} numbers={['Attempts']}>
                {items.map(({ id, object, module, method, accepted_at, attempts, class: met, reason }) => (
                  <tr key={id}>
                    <td class="mono object">
                      {method} {object}
                    </td>
                    <td>
                      <button
                        type="button"
                        aria-label={`Re-drive ${method} ${object}, delivery ${id}`}
                        disabled={redrive.isRunning}
                        onClick={() => redrive.run(id)}
                      >
                        Re-drive
                      </button>
                    </td>
                    <td>{module}</td>
                    <td class="instant">
                      <Instant value={accepted_at} />
                    </td>
                    <td class="number">{attempts.length}</td>
                    <td class="reason">{reason || meaningOf(met ?? '')}</td>
                  </tr>
                ))}
              </Table>
              {next_cursor !== null && <p class="inside quiet">The newest {count(shownMax)} are shown.</p>}
            </>
          )
        }
      </Asked>
    </Card>
  );
}
