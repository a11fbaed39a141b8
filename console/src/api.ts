// What this page asks the server over HTTP, and the fetcher that GraphiQL uses.

import { createGraphiQLFetcher, type Fetcher, type FetcherOpts, type FetcherParams } from "@graphiql/toolkit";
import { type DocumentNode, Kind, type OperationDefinitionNode, parse } from "graphql";
import { endpoint } from "./endpoint";
import { socket } from "./socket";
import { authorization } from "./token";

/** `fetch` with the token, unless the caller brings an `Authorization` of its own. */
async function fetchWithToken(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const bearer = authorization();
  if (bearer && !headers.has("authorization")) headers.set("authorization", bearer);
  const response = await fetch(input, { ...init, headers });
  const type = response.headers.get("content-type") ?? "";
  if (!type.includes("json")) {
    throw new Error(`The server answered ${response.status} ${response.statusText}`.trim() + " without JSON.");
  }
  return response;
}

/**
 * A fetcher for GraphiQL. Each call gives a new function: GraphiQL reads the
 * schema again when the function changes, and with another token another
 * schema may be visible.
 */
export function createFetcher(): Fetcher {
  const send = createGraphiQLFetcher({
    url: endpoint.href,
    fetch: fetchWithToken,
    wsClient: socket,
    enableIncrementalDelivery: false,
  });
  return (params, options) => send(...readAgain(params, options));
}

/**
 * GraphiQL learns which operations a document has a tenth of a second after an
 * edit or a change of tab. Whoever is faster would run a document under the
 * name of the one before, and a subscription over HTTP.
 */
function readAgain(params: FetcherParams, options?: FetcherOpts): [FetcherParams, FetcherOpts | undefined] {
  let documentAST: DocumentNode;
  try {
    documentAST = parse(params.query);
  } catch {
    return [params, options]; // The server says best what is wrong with it.
  }
  const names = documentAST.definitions
    .filter((definition): definition is OperationDefinitionNode => definition.kind === Kind.OPERATION_DEFINITION)
    .map((operation) => operation.name?.value);
  const operationName = names.length === 1 ? names[0] : params.operationName;
  return [{ ...params, operationName }, { ...options, documentAST }];
}

/** Who the server takes us for. */
export type Identity =
  | { state: "anonymous" }
  | { state: "checking" }
  | { state: "known"; email: string }
  | { state: "rejected" }
  | { state: "unknown"; detail: string };

/** Asks the server whose token this is. Never throws; a failure is `unknown`. */
export async function whoAmI(signal: AbortSignal): Promise<Identity> {
  if (!authorization()) return { state: "anonymous" };
  try {
    const response = await fetchWithToken(endpoint, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/graphql-response+json, application/json;q=0.9" },
      body: JSON.stringify({ query: "{ me { email } }" }),
      signal,
    });
    return readIdentity(response.status, await response.json());
  } catch (error) {
    return { state: "unknown", detail: error instanceof Error ? error.message : String(error) };
  }
}

type Answer = {
  data?: { me?: { email?: unknown } | null } | null;
  errors?: { message?: string; extensions?: { code?: string } }[];
};

function readIdentity(status: number, answer: Answer): Identity {
  const email = answer.data?.me?.email;
  if (typeof email === "string") return { state: "known", email };
  const error = answer.errors?.[0];
  if (status === 401 || error?.extensions?.code === "UNAUTHENTICATED") return { state: "rejected" };
  return { state: "unknown", detail: error?.message ?? "The server does not say whose token this is." };
}
