/** The frame around every page: sign-in, menu, notices. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { Link, Redirect, Route, Router, Switch, useLocation } from 'wouter-preact';
import { useCaller } from './data/query.ts';
import { type Caller, caller, mayAdminister, signOut, token } from './data/session.ts';
import { type Theme, theme, themes } from './data/theme.ts';
import { SignIn } from './pages/sign-in.tsx';
import { type PageEntry, pages } from './pages.ts';
import { Shortcuts, useShortcuts } from './parts/keys.tsx';
import { Notices } from './parts/notices.tsx';
import { ReasonAsked } from './parts/reason.tsx';
import { openSearch, Search, useSearchKey } from './parts/search.tsx';
import { Empty } from './parts/states.tsx';
import { openViews, Views } from './parts/views.tsx';

export function Shell() {
  return (
    <>
      {token.value === null ? <SignIn /> : <SignedIn />}
      <Notices />
    </>
  );
}

function SignedIn() {
  useCaller();
  return (
    <Router base="/console">
      <Frame />
    </Router>
  );
}

/** The tokens of the settings are named as their roles. */
const shownAs = ({ name, role }: Caller) => (name === role ? name : `${name} (${role})`);

function Frame() {
  const [, navigate] = useLocation();
  useShortcuts(pages, navigate);
  useSearchKey();
  return (
    <div class="frame">
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header class="top">
        <Link href="/" class="brand">
          <img src="/console/icon.svg" alt="" width="22" height="22" />
          <span>ocpi-hub</span>
        </Link>
        <Navigation />
        <div class="top-end">
          <button type="button" class="plain" onClick={openViews}>
            Views
          </button>
          <button type="button" class="plain" title="Ctrl-K" onClick={openSearch}>
            Search
          </button>
          <ThemeChoice />
          <span class="quiet wide-only">{caller.value === null ? '…' : shownAs(caller.value)}</span>
          <button type="button" class="plain" onClick={() => signOut()}>
            Sign out
          </button>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <Switch>
          {pages.map(({ path, title, page: Page }) => (
            <Route key={path} path={path}>
              <Titled title={title}>
                <Page />
              </Titled>
            </Route>
          ))}
          <Route path="/overview">
            <Redirect to="/" />
          </Route>
          <Route>
            <Empty title="There is no such page" hint="Choose one from the menu above." />
          </Route>
        </Switch>
      </main>
      <Shortcuts destinations={pages} />
      <Views />
      <Search pages={pages.filter(isOffered)} navigate={navigate} />
      <ReasonAsked />
    </div>
  );
}

/**
 * Sets the document title, by which tabs are distinguished; a page without a menu title uses the last segment of its path.
 */
function Titled({ title, children }: { title: string | null; children: ComponentChildren }) {
  const [location] = useLocation();
  useEffect(() => {
    document.title = `${title ?? decodeURIComponent(location.split('/').at(-1) ?? '')} · ocpi-hub`;
  }, [title, location]);
  return <>{children}</>;
}

/** Whether the caller's menu has it. */
const isOffered = ({ title, isForAdmins }: PageEntry): boolean =>
  title !== null && (!isForAdmins || mayAdminister.value);

function Navigation() {
  const [location] = useLocation();
  const list = useRef<HTMLUListElement>(null);
  // On a narrow screen the menu scrolls, and the page may be behind its end.
  useEffect(() => {
    list.current?.querySelector('[aria-current]')?.scrollIntoView({ inline: 'center', block: 'nearest' });
  }, [location, caller.value]);
  const isHere = (path: string) => (path === '/' ? location === '/' : location.startsWith(path));
  return (
    <nav aria-label="Pages">
      <ul ref={list}>
        {pages.filter(isOffered).map(({ path, title }) => (
          <li key={path}>
            <Link href={path} aria-current={isHere(path) ? 'page' : undefined}>
              {title}
            </Link>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function ThemeChoice() {
  return (
    <select
      aria-label="Theme"
      value={theme.value}
      onChange={({ currentTarget }) => {
        theme.value = currentTarget.value as Theme;
      }}
    >
      {themes.map((one) => (
        <option key={one} value={one}>
          {one}
        </option>
      ))}
    </select>
  );
}
