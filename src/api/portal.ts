/** Answers about the portal, in which a partner helps itself. */
import { z } from 'zod';
import type { View } from './common.ts';

export const portalLink = z.object({
  url: z.string().meta({ description: 'for the partner alone: anyone who has it can sign in until it expires' }),
  expires_at: z.string(),
});

export const portalSession = z.object({
  token: z.string().meta({ description: 'of the routes below /portal/v1' }),
  partner: z.string(),
  ends_at: z.string(),
});

export type PortalLink = View<typeof portalLink>;
export type PortalSession = View<typeof portalSession>;
