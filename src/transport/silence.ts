/**
 * The silence limit of connections, for answers on which the hub may work for longer than that.
 *
 * SILENCE-1  The limit cuts such an answer only when its client takes nothing of it, or has ended its side.
 */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Call it before the answer begins. Node leaves a silent connection open when its response listens for the time-out. [SILENCE-1] */
export function outlastSilence(response: ServerResponse): void {
  response.on('timeout', (socket: Socket) => {
    if (response.writableLength > 0 || socket.readableEnded) socket.destroy();
  });
}
