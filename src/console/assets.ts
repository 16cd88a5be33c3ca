/**
 * Serves the built pages: `/console/`, the operators', and `/portal/`, a partner's. A page carries no data and needs no token; it reads
 * everything from the API beside it.
 *
 * ASSETS-1  The page loads nothing from another host and nothing inline: it holds an admin token, so it runs only its
 *     own scripts.
 * ASSETS-2  Every path below its prefix answers with the page, so that a shared address opens the view that it was
 *     copied from.
 * ASSETS-3  A file is read once and kept; answers share its bytes. Somebody without a token may ask for it a hundred times
 *     on one connection and read nothing: that must hold neither a file descriptor nor a buffer for each answer.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';

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

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.map': 'application/json; charset=utf-8',
};

interface Asset {
  readonly bytes: Buffer;
  readonly type: string;
  readonly etag: string;
}

async function read(path: string): Promise<Asset> {
  const bytes = await readFile(path);
  const type = types[extname(path)] ?? 'application/octet-stream';
  return { bytes, type, etag: `"${createHash('sha256').update(bytes).digest('base64url')}"` };
}

/** `built` is the directory with the built pages. Each `page` of the result is registered under its prefix. */
export function builtPages(built: string): (prefix: string, page: string) => FastifyPluginAsync {
  // A page has the addresses without an ending.
  const names = new Set(existsSync(built) ? readdirSync(built).filter((name) => extname(name) !== '.html') : []);
  /** [ASSETS-3] */
  const kept = new Map<string, Promise<Asset>>();
  const assetOf = (name: string): Promise<Asset> => {
    const known = kept.get(name) ?? read(join(built, name));
    kept.set(name, known);
    known.catch(() => kept.delete(name));
    return known;
  };

  const answering = (prefix: string, page: string) => async (request: FastifyRequest, reply: FastifyReply) => {
    const { method, url, headers: asked } = request;
    const path = url.split('?', 1)[0] ?? '';
    const name = path.slice(prefix.length + 1);
    const isPage = ['GET', 'HEAD'].includes(method) && !/\.\w+$/.test(path);
    if (!isPage && !(names.has(name) && ['GET', 'HEAD'].includes(method)))
      return void reply.code(404).type('text/plain; charset=utf-8').send('Not found\n');
    const { bytes, type, etag } = await assetOf(isPage ? page : name);
    void reply.header('etag', etag);
    if (asked['if-none-match'] === etag) return void reply.code(304).send();
    reply.type(type).send(bytes);
  };

  return (prefix, page) => async (app) => {
    const answered = answering(prefix, page);
    // Returns no promise, as in `src/ocpi/refusals.ts`.
    const answer = (request: FastifyRequest, reply: FastifyReply) => {
      answered(request, reply).catch((error: unknown) => reply.send(error));
    };
    app.addHook('onSend', async (_request, reply) => void reply.headers(headers));
    app.get('', { prefixTrailingSlash: 'no-slash' }, async (_request, reply) => reply.redirect(`${prefix}/`, 308));
    app.get('/*', answer);
    app.setNotFoundHandler(answer);
  };
}
