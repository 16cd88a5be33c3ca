/** The one table of pages: path, title in the menu, shortcut, and component. */
import type { ComponentType } from 'preact';
import { Audit } from './pages/audit.tsx';
import { Commands } from './pages/commands.tsx';
import { Deliveries } from './pages/deliveries.tsx';
import { Delivery } from './pages/delivery.tsx';
import { Events } from './pages/events.tsx';
import { Month } from './pages/month.tsx';
import { Notifications } from './pages/notifications.tsx';
import { Onboarding } from './pages/onboarding.tsx';
import { Orphans } from './pages/orphans.tsx';
import { Overview } from './pages/overview.tsx';
import { Partner } from './pages/partner.tsx';
import { Reconciliation } from './pages/reconciliation.tsx';
import { Routing } from './pages/routing.tsx';
import { Trace } from './pages/trace.tsx';

export interface PageEntry {
  /** Below `/console`; parameters with a colon. */
  readonly path: string;
  /** Title in the menu; null for a page that is reached from other pages. */
  readonly title: string | null;
  /** Shortcut, pressed after `g`. */
  readonly key?: string;
  /** Not in the menu of other roles. */
  readonly isForAdmins?: true;
  readonly page: ComponentType;
}

export const pages: readonly PageEntry[] = [
  { path: '/', title: 'Overview', key: 'o', page: Overview },
  { path: '/deliveries', title: 'Deliveries', key: 'd', page: Deliveries },
  { path: '/trace', title: 'Trace', key: 't', page: Trace },
  { path: '/events', title: 'Events', key: 'e', page: Events },
  { path: '/commands', title: 'Commands', key: 'c', page: Commands },
  { path: '/orphans', title: 'Orphan cases', key: 'p', page: Orphans },
  { path: '/reconciliation', title: 'Billing', key: 'b', page: Reconciliation },
  { path: '/routing', title: 'Routing', key: 'r', page: Routing },
  { path: '/onboarding', title: 'Onboarding', key: 'n', page: Onboarding },
  { path: '/notifications', title: 'Notifications', key: 'w', page: Notifications },
  { path: '/audit', title: 'Audit', key: 'a', isForAdmins: true, page: Audit },
  { path: '/partners/:id/report', title: null, page: Month },
  { path: '/partners/:id', title: null, page: Partner },
  { path: '/deliveries/:id', title: null, page: Delivery },
];
