/**
 * A disk whose writes are logged: serves one file, `disk`, to the kernel over FUSE, from memory, so that a loop device and a file system of the
 * kernel work on it. Every write and every flush goes into a log in the order in which the disk took it, and so does every line that
 * processes write to the file `told` beside it: what had been told before a write is known exactly. Run with the image to begin with and
 * the path for the log, which is written when the disk is unmounted; file descriptor 3 is the FUSE connection.
 *
 * TEST-EXT4-CHILD-1  A request is answered when it is logged, one after the other: the order of the log is one that a disk may have seen.
 */
import { closeSync, openSync, readFileSync, readSync, writeSync } from 'node:fs';
import { type Kind, kinds } from './block-log.ts';

const [image = '', path = ''] = process.argv.slice(2);
const connection = 3;
const disk = readFileSync(image);
const log = openSync(path, 'w');

const [root, diskNode, toldNode] = [1n, 2n, 3n];
const names: Readonly<Record<string, bigint>> = { disk: diskNode, told: toldNode };

/** Operations of the FUSE protocol, by their numbers. */
const op = {
  ...{
    lookup: 1,
    forget: 2,
    getattr: 3,
    setattr: 4,
    open: 14,
    read: 15,
    write: 16,
    statfs: 17,
    release: 18,
    fsync: 20,
  },
  ...{
    flush: 25,
    init: 26,
    opendir: 27,
    readdir: 28,
    releasedir: 29,
    access: 34,
    interrupt: 36,
    destroy: 38,
    batchForget: 42,
  },
} as const;

const noEntry = -2;
const notSupported = -38;
const headerBytes = 40;
const writeMax = 1 << 20;
/** Of answers to INIT: asynchronous reads, large writes, and as many pages at once as `writeMax` holds. */
const abilities = 1 | (1 << 5) | (1 << 22);
const directIo = 1;
const foreverS = 1n << 30n;

function record(kind: Kind, at: number, data: Buffer): void {
  const head = Buffer.alloc(13);
  head.writeUInt8(kinds.indexOf(kind), 0);
  head.writeBigUInt64LE(BigInt(at), 1);
  head.writeUInt32LE(data.length, 9);
  writeSync(log, Buffer.concat([head, data]));
}

function answer(unique: bigint, body: Buffer | number): void {
  const [error, data] = typeof body === 'number' ? [body, Buffer.alloc(0)] : [0, body];
  const head = Buffer.alloc(16);
  head.writeUInt32LE(16 + data.length, 0);
  head.writeInt32LE(error, 4);
  head.writeBigUInt64LE(unique, 8);
  writeSync(connection, Buffer.concat([head, data]));
}

function attributes(node: bigint): Buffer {
  const bytes = Buffer.alloc(88);
  const size = node === diskNode ? disk.length : 0;
  bytes.writeBigUInt64LE(node, 0);
  bytes.writeBigUInt64LE(BigInt(size), 8);
  bytes.writeBigUInt64LE(BigInt(Math.ceil(size / 512)), 16);
  bytes.writeUInt32LE(node === root ? 0o40755 : 0o100600, 60);
  bytes.writeUInt32LE(1, 64);
  bytes.writeUInt32LE(4096, 80);
  return bytes;
}

function attrOut(node: bigint): Buffer {
  const head = Buffer.alloc(16);
  head.writeBigUInt64LE(foreverS, 0);
  return Buffer.concat([head, attributes(node)]);
}

function entryOut(node: bigint): Buffer {
  const head = Buffer.alloc(40);
  head.writeBigUInt64LE(node, 0);
  head.writeBigUInt64LE(foreverS, 16);
  head.writeBigUInt64LE(foreverS, 24);
  return Buffer.concat([head, attributes(node)]);
}

function initOut(minor: number): Buffer {
  const bytes = Buffer.alloc(64);
  bytes.writeUInt32LE(7, 0);
  bytes.writeUInt32LE(Math.min(minor, 31), 4);
  bytes.writeUInt32LE(writeMax, 8);
  bytes.writeUInt32LE(abilities, 12);
  bytes.writeUInt16LE(16, 16);
  bytes.writeUInt16LE(12, 18);
  bytes.writeUInt32LE(writeMax, 20);
  bytes.writeUInt32LE(1, 24);
  bytes.writeUInt16LE(writeMax / 4096, 28);
  return bytes;
}

function openOut(node: bigint): Buffer {
  const bytes = Buffer.alloc(16);
  bytes.writeUInt32LE(node === toldNode ? directIo : 0, 8);
  return bytes;
}

function written(node: bigint, request: Buffer): Buffer {
  const at = Number(request.readBigUInt64LE(headerBytes + 8));
  const size = request.readUInt32LE(headerBytes + 16);
  const data = request.subarray(headerBytes + 40, headerBytes + 40 + size);
  if (node === diskNode) data.copy(disk, at);
  record(node === diskNode ? 'write' : 'told', at, data);
  const bytes = Buffer.alloc(8);
  bytes.writeUInt32LE(size, 0);
  return bytes;
}

/** Null where no answer is wanted. */
function reaction(opcode: number, node: bigint, request: Buffer): Buffer | number | null {
  switch (opcode) {
    case op.init:
      return initOut(request.readUInt32LE(headerBytes + 4));
    case op.lookup: {
      const found = names[request.subarray(headerBytes, request.length - 1).toString()];
      return found === undefined ? noEntry : entryOut(found);
    }
    case op.getattr:
    case op.setattr:
      return attrOut(node);
    case op.open:
    case op.opendir:
      return openOut(node);
    case op.read: {
      const at = Number(request.readBigUInt64LE(headerBytes + 8));
      return node === diskNode ? disk.subarray(at, at + request.readUInt32LE(headerBytes + 16)) : Buffer.alloc(0);
    }
    case op.write:
      return written(node, request);
    case op.fsync:
      if (node === diskNode) record('flush', 0, Buffer.alloc(0));
      return Buffer.alloc(0);
    case op.statfs:
      return Buffer.alloc(80);
    case op.readdir:
    case op.release:
    case op.releasedir:
    case op.flush:
    case op.access:
    case op.destroy:
      return Buffer.alloc(0);
    case op.forget:
    case op.batchForget:
    case op.interrupt:
      return null;
    default:
      return notSupported;
  }
}

const buffer = Buffer.alloc(writeMax + (1 << 16));
for (;;) {
  let length = 0;
  try {
    length = readSync(connection, buffer, 0, buffer.length, null);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // ENOENT: the request was withdrawn before it was read. ENODEV: the disk is unmounted.
    if (code === 'ENOENT' || code === 'EINTR' || code === 'EAGAIN') continue;
    if (code === 'ENODEV') break;
    throw error;
  }
  const request = buffer.subarray(0, length);
  const reacted = reaction(request.readUInt32LE(4), request.readBigUInt64LE(16), request);
  if (reacted !== null) answer(request.readBigUInt64LE(8), reacted);
}
closeSync(log);
