/** The last failed call to a partner, in one line, with a link to its delivery when it has one. */
import type { PartyView } from '../../../api/parties.ts';
import { PageLink } from './page-link.tsx';
import { Since } from './time.tsx';

type LastErrorView = PartyView['last_error'];

/** `sessions: HTTP 500, …`; null without an error. */
export function errorText(error: LastErrorView): string | null {
  if (error === null) return null;
  const { what, http_status, excerpt, class: met } = error;
  const called = what === 'sync' ? 'command or authorize' : what;
  return `${called}: ${http_status === null ? met : `HTTP ${http_status}`}${excerpt ? `, ${excerpt}` : ''}`;
}

export function LastError({ error }: { error: LastErrorView }) {
  if (error === null) return <span class="quiet">none since the hub started</span>;
  return (
    <>
      <Since instant={error.at} /> · {errorText(error)}
      {error.delivery !== null && (
        <>
          {' · '}
          <PageLink href={`/deliveries/${encodeURIComponent(error.delivery)}`}>delivery {error.delivery}</PageLink>
        </>
      )}
    </>
  );
}
