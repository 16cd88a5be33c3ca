/** A Redis server of the bench's own, on a directory that is removed afterwards. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { freePort } from '../../src/sandbox/free-port.ts';
import { eventually } from '../support/plain-partner.ts';
import { pinnedTo, undoAtExit } from './processes.ts';
import { ownDirectory } from './scene.ts';

export const isRedisInstalled = spawnSync('redis-server', ['--version']).status === 0;

export interface RedisServer {
  readonly port: number;
  readonly pid: number;
  readonly end: () => Promise<void>;
}

/** Syncs its append-only file with every turn of its loop, before it answers. */
export async function startRedis(): Promise<RedisServer> {
  const port = await freePort();
  const { directory, remove } = ownDirectory();
  const settings = [
    ...['--port', String(port), '--bind', '127.0.0.1', '--dir', directory, '--save', ''],
    ...['--appendonly', 'yes', '--appendfsync', 'always', '--auto-aof-rewrite-percentage', '0'],
  ];
  const [program = '', ...args] = [...pinnedTo('measured'), 'redis-server', ...settings];
  const server = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const gone = once(server, 'exit');
  const settled = undoAtExit(() => server.kill('SIGKILL'));
  let said = '';
  server.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  await eventually('Redis accepts connections', () => said.includes('Ready to accept connections'));
  const end = async () => {
    settled();
    server.kill('SIGKILL');
    await gone;
    remove();
  };
  return { port, pid: server.pid ?? 0, end };
}
