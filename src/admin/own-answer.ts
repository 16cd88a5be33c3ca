/** Answers to read-only admin requests that a node gives itself while no hub runs on it, with the same token check. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isAdmitted } from '../transport/client-connection.ts';
import { Problem, problemOf } from './problem.ts';
import { type AdminTokens, admitted, gate } from './tokens.ts';

interface Text {
  readonly contentType: string;
  readonly text: string;
}

type Answers = Readonly<Record<string, (request: IncomingMessage, response: ServerResponse) => void>>;

/** Request handlers by path. */
export function answerOf(tokens: AdminTokens, texts: Readonly<Record<string, () => Promise<Text>>>): Answers {
  const allow = gate(tokens);
  const answers = Object.entries(texts).map(([path, text]) => {
    const answer = async (request: IncomingMessage, response: ServerResponse) => {
      try {
        admitted(allow, request);
        if (request.method !== 'GET' && request.method !== 'HEAD') {
          throw new Problem(405, `${request.method} is not a method of ${path}`, { headers: { allow: 'GET, HEAD' } });
        }
        const { contentType, text: body } = await text();
        send(response, 200, body, { 'Content-Type': contentType });
      } catch (error) {
        const problem = problemOf(error) ?? new Problem(500, 'the hub met an error of its own');
        // [UNADMITTED-2]
        const ending = isAdmitted(request) ? {} : { Connection: 'close' };
        const headers = { ...problem.headers, ...ending, 'Content-Type': 'application/problem+json; charset=utf-8' };
        send(response, problem.status, JSON.stringify(problem.toJson(path)), headers);
      }
    };
    return [path, answer] as const;
  });
  return Object.fromEntries(answers);
}

function send(response: ServerResponse, status: number, body: string, headers: Record<string, string>): void {
  response.writeHead(status, { ...headers, 'Content-Length': String(Buffer.byteLength(body)) }).end(body);
}
