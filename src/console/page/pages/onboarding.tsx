/** Page for onboarding a partner: add it, hand over what it needs, and watch it connect. */
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { OverviewView } from '../../../api/overview.ts';
import type { PartyView } from '../../../api/parties.ts';
import { useQuery } from '../data/query.ts';
import { mayAdminister } from '../data/session.ts';
import { Badge } from '../parts/badge.tsx';
import { Card } from '../parts/card.tsx';
import { useFilters } from '../parts/fields.tsx';
import { Asked, Empty } from '../parts/states.tsx';
import { type Added, PartnerForm } from './onboarding-form.tsx';
import { Handover, PullOnly } from './onboarding-handover.tsx';
import { Handshake } from './onboarding-handshake.tsx';
import { Check } from './partner-check.tsx';
import '../style/onboarding.css';

export function Onboarding() {
  const [{ partner }, change] = useFilters(['partner']);
  const [added, setAdded] = useState<Added | null>(null);
  return (
    <div class="onboarding stack">
      <div class="page-head">
        <h1>{partner ? `Onboarding ${partner}` : 'Onboarding'}</h1>
        {partner && (
          <button
            type="button"
            onClick={() => {
              setAdded(null);
              change({ partner: '' });
            }}
          >
            Another partner
          </button>
        )}
      </div>
      {partner ? (
        <Connecting key={partner} id={partner} added={added?.party.id === partner ? added : null} />
      ) : (
        <Beginning
          onAdded={(begun) => {
            setAdded(begun);
            change({ partner: begun.party.id });
          }}
        />
      )}
    </div>
  );
}

function Beginning({ onAdded }: { onAdded: (added: Added) => void }) {
  const query = useQuery<OverviewView>('/overview', 5_000);
  return (
    <Asked query={query} what="partners">
      {({ rows }) => {
        const waiting = rows.filter(({ status }) => status === 'REGISTERED');
        return (
          <div class="halves">
            {mayAdminister.value ? (
              <PartnerForm taken={new Set(rows.flatMap(({ parties }) => parties))} onAdded={onAdded} />
            ) : (
              <Empty title="Adding a partner needs the role admin" hint="Here you can watch those that are expected." />
            )}
            <Card title="Waiting to register" label="Expected" beside={<span class="quiet">{waiting.length}</span>}>
              {waiting.length === 0 ? (
                <Empty
                  title="No partners waiting"
                  hint="Partners that were added and have not connected yet are shown here."
                />
              ) : (
                <ul class="inside expected">
                  {waiting.slice(0, expectedMax).map(({ id, names }) => (
                    <li key={id}>
                      <Link class="mono" href={`/onboarding?partner=${id}`}>
                        {id}
                      </Link>{' '}
                      <span class="quiet">{names.join(', ')}</span>
                    </li>
                  ))}
                  {waiting.length > expectedMax && (
                    <li>
                      <Link href="/?show=registered">all {waiting.length}</Link>
                    </li>
                  )}
                </ul>
              )}
            </Card>
          </div>
        );
      }}
    </Asked>
  );
}

const expectedMax = 20;

function Connecting({ id, added }: { id: string; added: Added | null }) {
  const query = useQuery<PartyView>(`/parties/${encodeURIComponent(id)}`, 1_000);
  return (
    <Asked query={query} what={`partner ${id}`}>
      {(party) => (
        <div class="halves">
          <Card
            title="Send this to the partner's engineer"
            label="What the partner needs"
            beside={<Badge state={party.status} />}
          >
            {party.settings.pull_only ? (
              <PullOnly party={party} token={added?.hub_token ?? null} />
            ) : (
              <Handover party={party} token={added?.initial_token ?? null} />
            )}
          </Card>
          {!party.settings.pull_only && <Handshake party={party} reload={query.reload} />}
          {party.url !== null && <Check party={party} reload={query.reload} />}
        </div>
      )}
    </Asked>
  );
}
