/**
 * The request that carries a delivery, as text and as a curl command. The hub masks the token: this page never has it.
 */
import type { DeliveryDetailView } from '../../../api/deliveries.ts';
import { say } from '../data/action.ts';
import { copyText } from '../data/clipboard.ts';
import { count } from '../data/format.ts';
import { curlOf, laidOut } from '../data/request-text.ts';

export function RequestShown({ request }: { request: DeliveryDetailView['request'] }) {
  const { method, url, headers, body } = request;
  const curl = curlOf(request);
  return (
    <section class="card" aria-labelledby="request">
      <header>
        <h2 id="request">What is sent</h2>
        {curl !== null && (
          <button type="button" onClick={() => void copy(curl)}>
            Copy as curl
          </button>
        )}
      </header>
      <div class="inside stack">
        {url === null ? (
          <p class="error">The receiver has no endpoint for this module at present: there is nowhere to send it to.</p>
        ) : (
          <p>
            <b>{method}</b> <code>{url}</code> <span class="quiet">(the receiver's address of now)</span>
          </p>
        )}
        <dl class="facts mono headers">
          {Object.entries(headers).map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{name === changing ? <span class="quiet">another one at every attempt</span> : value}</dd>
            </div>
          ))}
        </dl>
        {body === null ? (
          <p class="quiet">It has no body.</p>
        ) : (
          <details open={body.length < openMax}>
            <summary>Body, {count(body.length)} characters</summary>
            <pre class="body">{laidOut(body)}</pre>
          </details>
        )}
      </div>
    </section>
  );
}

const openMax = 4_000;
const changing = 'X-Request-ID';

async function copy(curl: string): Promise<void> {
  const isCopied = await copyText(curl);
  if (isCopied) say('done', 'Copied. Put the token in place of ***.');
  else say('failed', 'This browser does not let the page copy.');
}
