// The token of this browser tab. It lives in the session storage: a second tab
// does not see it, and closing the tab forgets it.

const KEY = "trigger-manager:token";

let current = read();

function read(): string {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

/** The token that the next request is sent with; empty when there is none. */
export function token(): string {
  return current;
}

/** Keeps `value` for this tab; an empty one forgets it. */
export function keepToken(value: string): void {
  current = value;
  try {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  } catch {
    // A browser that refuses storage still has the value until the page goes.
  }
}

/** What was typed or pasted, without white space around it and without a leading `Bearer`. */
export function cleanToken(typed: string): string {
  return typed.trim().replace(/^(authorization:\s*)?bearer\s+/i, "");
}

/** Whether a header can carry the value: visible ASCII only. */
export function isSendable(value: string): boolean {
  return /^[\x21-\x7e]*$/.test(value);
}

/** The value of the `Authorization` header, if there is a token. */
export function authorization(): string | undefined {
  return current ? `Bearer ${current}` : undefined;
}
