/**
 * Style sheet and script of `/admin/docs`: no resource from another host, light and dark, readable from 360 pixels up.
 */

export const style = `
:root {
  color-scheme: light dark;
  --ground: #ffffff; --raised: #f5f6f8; --line: #d8dce3; --text: #1b1f27; --quiet: #565e6c; --link: #0b57c2;
  --get: #0b57c2; --post: #1a6b32; --put: #8a4b00; --patch: #6a3ea1; --delete: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #12151b; --raised: #1c2129; --line: #353c48; --text: #e8ebf0; --quiet: #a3acba; --link: #84b4ff;
    --get: #84b4ff; --post: #7fd394; --put: #f0b163; --patch: #c8a6f5; --delete: #ff9c94;
  }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body { margin: 0; background: var(--ground); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
a { color: var(--link); }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
code, pre { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 0.875em; overflow-wrap: anywhere; }
.page { max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1 { margin: 0.25rem 0; font-size: 1.6rem; }
h2 { margin: 2rem 0 0.25rem; font-size: 1.25rem; }
h3 { margin: 1rem 0 0.25rem; font-size: 1rem; }
.quiet { color: var(--quiet); }
p { margin: 0.25rem 0 0.75rem; }
nav ul { display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; margin: 0.5rem 0; padding: 0; list-style: none; }
.filter { display: block; margin: 1rem 0; font-weight: 600; }
input { display: block; width: 100%; max-width: 28rem; margin-top: 0.25rem; padding: 0.5rem; font: inherit;
  color: inherit; background: var(--ground); border: 1px solid var(--quiet); border-radius: 6px; }
details { margin: 0.5rem 0; border: 1px solid var(--line); border-radius: 8px; background: var(--raised); }
summary { padding: 0.6rem 0.75rem; cursor: pointer; }
summary .what { display: block; color: var(--quiet); }
summary .role { float: right; margin-left: 0.5rem; color: var(--quiet); font-size: 0.8rem; }
.inside { padding: 0 0.75rem 0.75rem; }
.method { font-weight: 700; }
.get { color: var(--get); } .post { color: var(--post); } .put { color: var(--put); }
.patch { color: var(--patch); } .delete { color: var(--delete); }
.fields { margin: 0; padding-left: 0; list-style: none; }
.fields .fields { margin-left: 0.25rem; padding-left: 0.75rem; border-left: 2px solid var(--line); }
.fields li { padding: 0.15rem 0; }
.name { font-weight: 600; }
.must { color: var(--delete); font-size: 0.8rem; }
.curl { position: relative; }
pre { margin: 0; padding: 0.75rem; overflow-x: auto; background: var(--ground); border: 1px solid var(--line);
  border-radius: 6px; white-space: pre-wrap; }
button { margin: 0.5rem 0; padding: 0.4rem 0.8rem; font: inherit; color: inherit; cursor: pointer;
  background: var(--ground); border: 1px solid var(--quiet); border-radius: 6px; }
[hidden] { display: none; }
`;

export const script = `
const filter = document.querySelector('input');
const operations = [...document.querySelectorAll('.operation')];
filter.addEventListener('input', () => {
  const words = filter.value.toLowerCase().split(/\\s+/);
  for (const one of operations) {
    const text = one.querySelector('summary').textContent.toLowerCase();
    one.hidden = !words.every((word) => text.includes(word));
  }
  for (const noun of document.querySelectorAll('section.noun')) {
    noun.hidden = !noun.querySelector('.operation:not([hidden])');
  }
});
const openTarget = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === 'DETAILS') target.open = true;
};
addEventListener('hashchange', openTarget);
openTarget();
const copied = async (block) => {
  // The clipboard is there only over https or on the machine itself; elsewhere the text is selected and copied the old way.
  try {
    await navigator.clipboard.writeText(block.textContent);
    return;
  } catch {}
  getSelection().selectAllChildren(block);
  if (!document.execCommand('copy')) throw new Error('not copied');
};
for (const button of document.querySelectorAll('.curl button')) {
  const label = button.textContent;
  button.hidden = false;
  button.addEventListener('click', () => {
    copied(button.parentElement.querySelector('pre')).then(
      () => { button.textContent = 'Copied'; },
      () => { button.textContent = 'Select the text and copy it'; },
    ).finally(() => setTimeout(() => { button.textContent = label; }, 2000));
  });
}
`;
