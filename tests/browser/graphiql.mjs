// Opens the GraphiQL page of a running server in a real browser and uses it.
// Exits 0 when all of it works, 1 with a sentence that says what did not, and
// 2 when it is called wrongly. `--help` lists the options.
//
// Needs `npm ci` in console/ and a Chromium (CHROMIUM, or /usr/bin/chromium).

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

const require = createRequire(new URL("../../console/package.json", import.meta.url));
const { chromium } = require("playwright-core");

const USAGE = `usage: graphiql.mjs BASE_URL TOKEN [options]

  --subscription DOCUMENT    start this subscription and see that it runs
  --cause-mutation DOCUMENT  sent to the server once it runs; an event must then arrive
  --cause-command COMMAND    the same, with a command for the shell
  --screenshots FOLDER       keep a picture of the page, light and dark
  --timeout SECONDS          for each wait (default 20)
`;

const options = readArguments();
const base = options.base.replace(/\/+$/, "");
const endpoint = `${base}/graphql`;
const origin = new URL(base).origin;
const timeout = options.timeout * 1000;

/** What the page may not do; each entry is a sentence. */
const offences = [];
/** The text of every websocket frame, in order. */
const frames = { sent: [], received: [] };

class Failure extends Error {}

function readArguments() {
  const text = { type: "string" };
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        help: { type: "boolean" },
        subscription: text,
        "cause-mutation": text,
        "cause-command": text,
        screenshots: text,
        timeout: { type: "string", default: "20" },
      },
    });
    const [base, token] = positionals;
    const wrong = !token || positionals.length > 2 || !/^https?:\/\//.test(base) || !(values.timeout > 0);
    const causeless = (values["cause-mutation"] || values["cause-command"]) && !values.subscription;
    if (!values.help && !wrong && !causeless) {
      return { ...values, base, token, timeout: Number(values.timeout) };
    }
    process.stdout.write(USAGE);
    process.exit(values.help ? 0 : 2);
  } catch (error) {
    process.stderr.write(`${error.message}\n\n${USAGE}`);
    process.exit(2);
  }
}

async function step(name, work) {
  try {
    const note = await work();
    console.log(`ok    ${name}${note ? ` (${note})` : ""}`);
  } catch (error) {
    throw error instanceof Failure ? error : new Failure(`${name}: ${error.message}`);
  }
}

function check(condition, sentence) {
  if (!condition) throw new Failure(sentence);
}

/** Collects every request, error and policy violation from the first moment on. */
async function watch(context) {
  context.on("request", (request) => {
    const url = new URL(request.url());
    const inside = url.origin === origin || url.protocol === "data:" || url.protocol === "blob:";
    if (!inside) offences.push(`a request left the origin: ${request.url()}`);
  });
  context.on("response", (response) => {
    if (response.status() >= 400 && response.url() !== endpoint) {
      offences.push(`${response.url()} answered ${response.status()}`);
    }
  });
  context.on("weberror", (error) => offences.push(`the page threw: ${error.error().message}`));
  context.on("console", (message) => {
    // Before a token is set the server may refuse to answer; that is no fault of the page.
    const refused = message.location().url === endpoint && /status of 40[13]/.test(message.text());
    if (message.type() === "error" && !refused) offences.push(`console error: ${message.text()}`);
  });
  await context.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) => {
      console.error(`policy violation: ${event.violatedDirective} ${event.blockedURI}`);
    });
  });
}

function watchSockets(page) {
  page.on("websocket", (socket) => {
    const expected = endpoint.replace(/^http/, "ws");
    if (socket.url() !== expected) offences.push(`a websocket went to ${socket.url()}, not ${expected}`);
    socket.on("framesent", ({ payload }) => frames.sent.push(String(payload)));
    socket.on("framereceived", ({ payload }) => frames.received.push(String(payload)));
  });
}

/** Waits until `probe` gives something true, asking again every 50 ms. */
async function eventually(page, probe, sentence) {
  for (let waited = 0; waited < timeout; waited += 50) {
    if (await probe()) return;
    await page.waitForTimeout(50);
  }
  throw new Failure(typeof sentence === "string" ? sentence : await sentence());
}

/** The text in the answer pane. The editor shows spaces as no-break spaces. */
async function answer(page) {
  const lines = await page.locator(".result-window .view-line").allInnerTexts();
  return lines.join("\n").replaceAll("\u00a0", " ");
}

async function answerWith(page, pattern) {
  const missing = async () => `no answer that matches ${pattern}; the page shows: ${await answer(page)}`;
  await eventually(page, async () => pattern.test(await answer(page)), missing);
}

/** Opens a new tab, replaces what it holds and runs it. */
async function run(page, document) {
  await page.locator("button.graphiql-tab-add").click();
  await page.locator(".graphiql-query-editor .monaco-editor").first().click();
  await page.keyboard.press("Control+A");
  await page.keyboard.insertText(document);
  await page.keyboard.press("Control+Enter");
}

async function open(page, path) {
  const response = await page.goto(`${base}${path}`);
  check(response.ok(), `${path} answered ${response.status()}`);
  const policy = response.headers()["content-security-policy"] ?? "";
  check(policy.includes("default-src 'self'"), `${path} has no content security policy`);
  await page.locator(".graphiql-query-editor .view-line").first().waitFor();
}

async function setToken(page) {
  const field = page.locator("#token");
  check((await field.getAttribute("type")) === "password", "the token is readable over the shoulder");
  await field.fill(options.token);
  await field.press("Enter");
  const status = page.locator("#token-status");
  const settled = async () => !["anonymous", "checking"].includes(await status.getAttribute("data-state"));
  await eventually(page, settled, "the page never said whose token it is");
  const state = await status.getAttribute("data-state");
  const said = await status.innerText();
  check(state === "known", `the token should sign somebody in; the page says "${said}"`);
  const kept = await page.evaluate(() => [JSON.stringify(sessionStorage), JSON.stringify(localStorage)]);
  check(kept[0].includes(options.token), "the token is not kept for this browser tab");
  check(!kept[1].includes(options.token), "the token went into the lasting storage");
  return said.trim();
}

/** The documents a newcomer finds must run as they stand. */
async function runFirstTabs(page) {
  const tabs = page.locator(".graphiql-tab-button");
  const names = (await tabs.allInnerTexts()).map((name) => name.trim());
  check(names.length >= 2, `a first visit shows ${names.length} tabs, not two`);
  for (const [index, name] of names.entries()) {
    await tabs.nth(index).click();
    await page.locator(".graphiql-query-editor .monaco-editor").first().click();
    const answered = page.waitForResponse((response) => operationOf(response) === name);
    await page.keyboard.press("Control+Enter");
    const body = await (await answered).json();
    check(body.data && !body.errors, `the document ${name} fails: ${JSON.stringify(body)}`);
    await answerWith(page, /"data":/);
  }
  return names.join(", ");
}

function operationOf(response) {
  if (response.url() !== endpoint || response.request().method() !== "POST") return undefined;
  return response.request().postDataJSON().operationName;
}

async function useDocs(page) {
  await page.getByLabel("Show Documentation Explorer").click();
  const docs = page.locator(".graphiql-doc-explorer");
  const query = docs.locator("a.graphiql-doc-explorer-type-name", { hasText: "Query" }).first();
  await query.click();
  await docs.locator("a.graphiql-doc-explorer-field-name", { hasText: /^me$/ }).waitFor();
  const fields = await docs.locator("a.graphiql-doc-explorer-field-name").count();
  return `Query has ${fields} fields`;
}

async function useSideBar(page) {
  await page.getByLabel("Show History").click();
  await page.locator(".graphiql-history-item").first().waitFor();
  await page.getByLabel("Show GraphiQL Explorer").click();
  await page.locator(".graphiql-explorer-root").first().waitFor();
  await page.getByLabel("Hide GraphiQL Explorer").click();
}

async function cause() {
  if (options["cause-command"]) {
    execFileSync("/bin/sh", ["-c", options["cause-command"]], { stdio: "inherit" });
  }
  if (options["cause-mutation"]) {
    const response = await fetch(endpoint, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${options.token}` },
      body: JSON.stringify({ query: options["cause-mutation"] }),
    });
    const body = await response.text();
    check(response.ok && !JSON.parse(body).errors, `the mutation that should cause an event failed: ${body}`);
  }
  return Boolean(options["cause-command"] || options["cause-mutation"]);
}

const isOfType = (type) => (frame) => frame.startsWith("{") && JSON.parse(frame).type === type;

async function useSubscription(page) {
  await run(page, options.subscription);
  const ended = () => frames.received.find((f) => isOfType("error")(f) || isOfType("complete")(f));
  const acknowledged = () => frames.received.some(isOfType("connection_ack"));
  const heard = () => `the server did not accept the connection; it sent: ${frames.received.join(" ")}`;
  await eventually(page, acknowledged, heard);
  const greeting = frames.sent.find(isOfType("connection_init")) ?? "";
  check(greeting.includes(`Bearer ${options.token}`), "the websocket was opened without the token");
  await eventually(page, () => frames.sent.some(isOfType("subscribe")), "no subscription was sent");
  // A refused document is answered at once; one more round trip tells.
  await page.evaluate((url) => fetch(url, { method: "HEAD" }).then(() => undefined), page.url());
  check(!ended(), `the subscription ended at once: ${ended()}`);
  await page.getByLabel(/^Stop query/).waitFor();
  let note = "running; no event asked for";
  if (await cause()) {
    await eventually(page, () => frames.received.some(isOfType("next")), "no event arrived");
    await answerWith(page, /"data":/);
    note = "an event arrived";
  }
  await page.getByLabel(/^Stop query/).click();
  await page.getByLabel(/^Execute query/).waitFor();
  return note;
}

async function takePictures(page) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: join(options.screenshots, `graphiql-${colorScheme}.png`) });
  }
}

async function useThePage(context) {
  const page = await context.newPage();
  page.setDefaultTimeout(timeout);
  watchSockets(page);
  await step("the page opens", () => open(page, "/graphiql"));
  await step("the token signs in", () => setToken(page));
  await step("the documents of a first visit run", () => runFirstTabs(page));
  await step("a query is answered", async () => {
    await run(page, "{ me { email } }");
    await answerWith(page, /"email": "[^"]+@[^"]+"/);
  });
  await step("the docs show the Query type", () => useDocs(page));
  await step("history and explorer open", () => useSideBar(page));
  if (options.subscription) await step("the subscription runs", () => useSubscription(page));
  else console.log("skip  the subscription runs (no --subscription)");
  if (options.screenshots) await step("pictures", () => takePictures(page));
  await step("the alias /gql opens", () => open(page, "/gql"));
  await step("nothing left the origin, nothing was complained about", () => {
    check(offences.length === 0, offences.join("\n      "));
  });
}

async function main() {
  const profile = mkdtempSync(join(tmpdir(), "graphiql-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    viewport: { width: 1360, height: 820 },
    args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
  });
  try {
    await watch(context);
    await useThePage(context);
  } finally {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  }
}

main().catch((error) => {
  const reasons = [error.message, ...offences.filter((offence) => !error.message.includes(offence))];
  console.error(`FAIL  ${reasons.join("\n      ")}`);
  process.exit(1);
});
