/**
 * `/console/`: the operators' page. It carries no data and needs no token; what it shows it asks the admin API for.
 *
 * ASSETS-1  Nothing from another host, nothing inline: a page that holds an admin token runs no script but its own.
 * ASSETS-2  Every path below is the page itself, so that an address that was shared opens where it was copied.
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

/** To be registered under the prefix `/console`; `built` is the directory into which the build put the page. */
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
