/**
 * Serves `/console/`, the operators' page. The page carries no data and needs no token; it reads everything from the
 * admin API.
 *
 * ASSETS-1  The page loads nothing from another host and nothing inline: it holds an admin token, so it runs only its
 *     own scripts.
 * ASSETS-2  Every path below `/console/` answers with the page, so that a shared address opens the view that it was
 *     copied from.
 */
import fastifyStatic from '@fastify/static';
import type { FastifyPluginAsync } from 'fastify';

const headers = {
  'cache-control': 'no-cache',
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
};

/** Register it under the prefix `/console`; `built` is the directory with the built page. */
export function consolePage(built: string): FastifyPluginAsync {
  return async (app) => {
    app.addHook('onSend', async (_request, reply) => void reply.headers(headers));
    app.get('', { prefixTrailingSlash: 'no-slash' }, async (_request, reply) => reply.redirect('/console/', 308));
    await app.register(fastifyStatic, { root: built, cacheControl: false });
    app.setNotFoundHandler(async ({ method, url }, reply) => {
      const isPage = ['GET', 'HEAD'].includes(method) && !/\.\w+$/.test(url.split('?', 1)[0] ?? '');
      if (!isPage) return reply.code(404).type('text/plain; charset=utf-8').send('Not found\n');
      return reply.sendFile('index.html');
    });
  };
}
