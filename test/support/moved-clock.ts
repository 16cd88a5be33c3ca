/**
 * A library that moves the wall clock of the process that preloads it, while it runs; its monotonic clocks are left
 * alone. Built with the machine's C compiler.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';

const source = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *ahead; /* seconds */
static int (*real_clock)(clockid_t, struct timespec *);
static int (*real_day)(struct timeval *, void *);

__attribute__((constructor)) static void begin(void) {
  real_clock = dlsym(RTLD_NEXT, "clock_gettime");
  real_day = dlsym(RTLD_NEXT, "gettimeofday");
  const char *path = getenv("MOVED_CLOCK");
  int file = path ? open(path, O_RDONLY) : -1;
  if (file < 0) return;
  void *found = mmap(0, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  if (found != MAP_FAILED) ahead = found;
  close(file);
}

int clock_gettime(clockid_t id, struct timespec *at) {
  if (!real_clock) real_clock = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real_clock(id, at);
  if (result == 0 && ahead && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec += *ahead;
  return result;
}

int gettimeofday(struct timeval *at, void *zone) {
  if (!real_day) real_day = dlsym(RTLD_NEXT, "gettimeofday");
  int result = real_day(at, zone);
  if (result == 0 && ahead) at->tv_sec += *ahead;
  return result;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
`;

export interface MovedClock {
  /** For the process whose clock is moved. */
  readonly env: Readonly<Record<string, string>>;
  move(aheadS: number): void;
}

/** Null when this machine has no C compiler, or is no Linux. */
export function movedClock(directory: string): MovedClock | null {
  if (process.platform !== 'linux' || spawnSync('gcc', ['--version']).status !== 0) return null;
  const [code, library, offset] = ['moved.c', 'moved.so', 'ahead'].map((name) => join(directory, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(code, source);
  execFileSync('gcc', ['-shared', '-fPIC', '-O1', '-o', library, code, '-ldl']);
  writeFileSync(offset, Buffer.alloc(8));
  return {
    env: { LD_PRELOAD: library, MOVED_CLOCK: offset },
    move(aheadS) {
      const bytes = Buffer.alloc(8);
      bytes.writeBigInt64LE(BigInt(aheadS));
      // In place: the process has the file mapped.
      const file = openSync(offset, 'r+');
      writeSync(file, bytes, 0, bytes.length, 0);
      closeSync(file);
    },
  };
}
