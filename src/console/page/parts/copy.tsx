/** A text to pass on, with a button that copies it. */
import { useState } from 'preact/hooks';
import { say } from '../data/action.ts';

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

/** Also over plain HTTP, where browsers offer no clipboard API. */
export async function copyText(text: string): Promise<boolean> {
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return true;
    }
  } catch {
    // The clipboard API is not allowed here; `execCommand` may be.
  }
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand('copy');
  area.remove();
  return isCopied;
}
