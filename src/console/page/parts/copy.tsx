/** A text to pass on, with a button that copies it. */
import { useState } from 'preact/hooks';
import { say } from '../data/action.ts';
import { copyText } from '../data/clipboard.ts';

const copiedMs = 2_000;

export function Copied({ label, text }: { label: string; text: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    if (!(await copyText(text))) {
      return say('failed', 'The browser does not allow copying here: select the text and copy it by hand.');
    }
    setCopied(true);
    setTimeout(() => setCopied(false), copiedMs);
  };
  return (
    <div class="copied">
      <span class="quiet">{label}</span>
      <div class="row">
        <code>{text}</code>
        <button type="button" aria-label={`Copy ${label}`} onClick={() => void copy()}>
          {isCopied ? 'Copied ✓' : 'Copy'}
        </button>
      </div>
    </div>
  );
}
