/** A part of a page with a heading; what is `beside` the heading concerns the whole part. */
import type { ComponentChildren } from 'preact';
import type { PartyView } from '../../../api/parties.ts';

interface CardProps {
  readonly title: string;
  /** For screen readers, where the title does not say enough alone. */
  readonly label?: string;
  readonly class?: string;
  readonly beside?: ComponentChildren;
  readonly children: ComponentChildren;
}

export function Card({ title, label = title, class: more = '', beside, children }: CardProps) {
  return (
    <section class={`card ${more}`.trim()} aria-label={label}>
      <header>
        <h2>{title}</h2>
        {beside}
      </header>
      {children}
    </section>
  );
}

/** What each card of a partner's page gets. */
export interface PartnerProps {
  readonly party: PartyView;
  readonly reload: () => void;
}

/** What a dialog gets that such a card opens. */
export interface DialogOfPartner extends PartnerProps {
  readonly onClose: () => void;
}
