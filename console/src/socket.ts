// The websocket of this page. It is opened by the first subscription, closed
// after the last, and shared by those between.

import type { GraphQLFormattedError } from "graphql";
import { type Client, CloseCode, createClient, type FormattedExecutionResult, type Sink } from "graphql-ws";
import { endpoint } from "./endpoint";
import { authorization } from "./token";

function address(): string {
  const socket = new URL(endpoint);
  socket.protocol = socket.protocol === "https:" ? "wss:" : "ws:";
  return socket.href;
}

/** The first attempt comes at once, later ones after 1, 2, 4 and 8 seconds and a bit. */
async function pause(retries: number): Promise<void> {
  if (retries === 0) return;
  const wait = 1000 * 2 ** (retries - 1) + 500 * Math.random();
  await new Promise((resolve) => setTimeout(resolve, wait));
}

const client = createClient({
  url: address(),
  // Asked at each connection, so that a new token holds from the next one on.
  connectionParams: () => {
    const bearer = authorization();
    return bearer ? { Authorization: bearer } : {};
  },
  keepAlive: 15_000,
  retryAttempts: 5,
  retryWait: pause,
  shouldRetry: (problem) => !(problem instanceof CloseEvent && problem.code === CloseCode.Forbidden),
});

/**
 * The client for GraphiQL. A failure arrives as a result with `errors`, which
 * is shown like any other answer, and ends the subscription.
 */
export const socket: Client = {
  ...client,
  subscribe(payload, sink) {
    const results = sink as Sink<FormattedExecutionResult<Record<string, unknown>, unknown>>;
    return client.subscribe(payload, {
      next: (result) => results.next(result),
      complete: () => results.complete(),
      error: (problem) => {
        results.next({ errors: explain(problem) });
        results.complete();
      },
    });
  },
};

function explain(problem: unknown): readonly GraphQLFormattedError[] {
  if (Array.isArray(problem)) return problem;
  if (problem instanceof CloseEvent) {
    const reason = problem.reason || "no reason given";
    return [{ message: `The websocket was closed with code ${problem.code}: ${reason}.` }];
  }
  return [{ message: problem instanceof Error ? problem.message : "The websocket could not be opened." }];
}

/** Running subscriptions start again on a new connection, with the token of now. */
export function reconnect(): void {
  client.terminate();
}
