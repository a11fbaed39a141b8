// Opens the reference page of the machine endpoints in a real browser.
// Exits 0 when it shows the endpoints and asks nobody but the server, and 1
// with sentences that say what is wrong.
//
//   reference.mjs BASE_URL
//
// Needs `npm ci` in console/ and a Chromium (CHROMIUM, or /usr/bin/chromium).

import { createRequire } from "node:module";

const require = createRequire(new URL("../../console/package.json", import.meta.url));
const { chromium } = require("playwright-core");

const ENDPOINTS = [
  "/api/machine/register-backend",
  "/api/machine/heartbeat",
  "/api/machine/check",
  "/api/machine/backends/{id}",
  "/api/machine/application/{id}/tenants",
];

const base = process.argv[2]?.replace(/\/+$/, "");
if (!/^https?:\/\//.test(base ?? "")) {
  process.stderr.write("usage: reference.mjs BASE_URL\n");
  process.exit(2);
}
const origin = new URL(base).origin;
const offences = [];

function watch(page) {
  page.on("request", (request) => {
    const url = new URL(request.url());
    const inside = url.origin === origin || url.protocol === "data:" || url.protocol === "blob:";
    if (!inside) offences.push(`a request left the origin: ${request.url()}`);
  });
  page.on("response", (response) => {
    if (response.status() >= 400) offences.push(`${response.url()} answered ${response.status()}`);
  });
  page.on("pageerror", (error) => offences.push(`the page threw: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error") offences.push(`console error: ${message.text()}`);
  });
}

async function read(page) {
  await page.goto(`${base}/api/docs`);
  await page.locator(".opblock").first().waitFor();
  const shown = await page.locator(".opblock-summary-path").allInnerTexts();
  // Long paths may break anywhere, with zero-width spaces.
  const paths = shown.map((path) => path.replaceAll(/[\u200b\s]/g, ""));
  for (const endpoint of ENDPOINTS) {
    if (!paths.includes(endpoint)) offences.push(`${endpoint} is not shown, only ${paths.join(", ")}`);
  }
  await page.locator(".opblock-summary-path").first().click();
  await page.locator(".opblock-body").first().waitFor();
  return paths.length;
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
});
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(60_000);
  watch(page);
  const count = await read(page);
  console.log(`ok    the reference shows ${count} endpoints`);
} catch (error) {
  offences.push(error.message);
} finally {
  await browser.close();
}
for (const offence of offences) console.error(`FAIL  ${offence}`);
process.exit(offences.length === 0 ? 0 : 1);
