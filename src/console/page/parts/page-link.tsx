/** A link to a page of the console; in the portal, which does not have it, its text alone. */
import type { ComponentChildren } from 'preact';
import { Link } from 'wouter-preact';
import { isPortal } from '../data/session.ts';

interface PageLinkProps {
  readonly href: string;
  readonly class?: string;
  readonly children: ComponentChildren;
}

export function PageLink({ href, children, ...rest }: PageLinkProps) {
  return isPortal ? (
    <span {...rest}>{children}</span>
  ) : (
    <Link href={href} {...rest}>
      {children}
    </Link>
  );
}
