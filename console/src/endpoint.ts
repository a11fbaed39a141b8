/**
 * Where the server answers queries and subscriptions. Relative to the page, so
 * that a base path in front of the server needs no setting.
 */
export const endpoint = new URL("./graphql", document.baseURI);
