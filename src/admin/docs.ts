/**
 * Serves `/admin/docs`, the documentation of the admin API as one page that needs no other host and no token.
 */
import { createHash } from 'node:crypto';
import type { FastifyPluginAsync } from 'fastify';
import { script, style } from './docs-look.ts';
import { docsPage } from './docs-page.ts';
import type { ApiDocument } from './openapi.ts';

const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** Content security policy: only the page's own style and script, by hash. */
const policy = [
  "default-src 'none'",
  `style-src ${hashOf(style)}`,
  `script-src ${hashOf(script)}`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** `described` returns the OpenAPI document; the page is rendered once. */
export function docs(described: () => ApiDocument): FastifyPluginAsync {
  let page: string | undefined;
  return async (app) => {
    for (const path of ['/admin/docs', '/admin/docs/']) {
      app.get(path, { exposeHeadRoute: true }, async (_request, reply) => {
        if (path.endsWith('/')) return reply.redirect('../docs', 308);
        page ??= docsPage(described());
        return reply
          .headers({
            'content-security-policy': policy,
            'x-content-type-options': 'nosniff',
            'referrer-policy': 'no-referrer',
            'cache-control': 'no-cache',
          })
          .type('text/html; charset=utf-8')
          .send(page);
      });
    }
  };
}
