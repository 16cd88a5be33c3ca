/**
 * A text to pass on, with a button that copies it.
 */
import { useState } from 'preact/hooks';
import { say } from '../data/notices.ts';

const copiedMs = 2_000;

export function Copied({ label, text }: { label: string; text: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), copiedMs);
    } catch {
      // Browsers offer no clipboard API without HTTPS, and may deny it.
      say('failed', 'The browser does not allow copying here: select the text and copy it by hand.');
    }
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
