/**
 * Serves `/admin/docs`, the documentation of the admin API as one page that needs no other host and no token.
 */
import type { FastifyPluginAsync } from 'fastify';
import type { ApiDocument } from './openapi.ts';

/** The page is loaded and rendered once, when it is first asked for. */
export function docs(describe: () => Promise<ApiDocument>): FastifyPluginAsync {
  let page: Promise<{ readonly html: string; readonly policy: string }> | undefined;
  const render = async () => {
    const [{ docsPage, policy }, described] = await Promise.all([import('./docs-page.ts'), describe()]);
    return { html: docsPage(described), policy };
  };
  return async (app) => {
    app.get('/admin/docs/', { exposeHeadRoute: true }, async (_request, reply) => reply.redirect('../docs', 308));
    app.get('/admin/docs', { exposeHeadRoute: true }, async (_request, reply) => {
      page ??= render();
      const { html, policy } = await page;
      return reply
        .headers({
          'content-security-policy': policy,
          'x-content-type-options': 'nosniff',
          'referrer-policy': 'no-referrer',
          'cache-control': 'no-cache',
        })
        .type('text/html; charset=utf-8')
        .send(html);
    });
  };
}
