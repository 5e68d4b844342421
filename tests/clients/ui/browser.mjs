// A browser for the flows, and requests that prepare the server.

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";

import { chromium } from "playwright-core";

const require = createRequire(import.meta.url);

/** URL of the server, and the token of its administrator. */
export const server = process.env.HOLDFAST_URL;
export const token = process.env.HOLDFAST_TOKEN;

/** Folder for pictures; none are taken if it is not set. */
const pictures = process.env.HOLDFAST_PICTURES;

/** Sizes of windows: of a laptop, and of a phone. */
export const WIDE = { width: 1280, height: 800 };
export const NARROW = { width: 390, height: 844 };

/** Time limit of every wait, in milliseconds. */
const LIMIT = 60_000;

/** Sends a request to the server and returns the document of its answer. */
export async function ask(method, target, body, contentType = "application/json", as = token) {
  const response = await fetch(server + target, {
    method,
    headers: { Authorization: `Bearer ${as}`, "Content-Type": contentType },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const document = await response.json();
  assert.ok(response.ok, `${method} ${target}: ${document.message}`);
  return document;
}

/** Applies a manifest as a manager. */
export function apply(target, manager, manifest, query = {}) {
  return ask(
    "PATCH",
    `${target}?${new URLSearchParams({ fieldManager: manager, ...query })}`,
    manifest,
    "application/apply-patch+yaml",
  );
}

/** Runs a flow in a new window. The flow fails if the page reports an error, violates its policy, or opens a dialog. */
export async function withPage(size, flow, options = {}) {
  const browser = await chromium.launch({
    executablePath: process.env.HOLDFAST_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu"],
  });
  try {
    const context = await browser.newContext({ viewport: size, ignoreHTTPSErrors: true, ...options });
    context.setDefaultTimeout(LIMIT);
    const page = await context.newPage();
    const problems = [];
    page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
    page.on("dialog", (dialog) => {
      problems.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("console", (message) => {
      // Rejected requests are part of some flows.
      const isExpected = message.text().startsWith("Failed to load resource");
      if (message.type() === "error" && !isExpected) problems.push(`console: ${message.text()}`);
    });
    try {
      await flow(page, context);
    } catch (error) {
      await page.screenshot({ path: "failed.png" }).catch(() => undefined);
      throw error;
    }
    assert.deepEqual(problems, []);
  } finally {
    await browser.close();
  }
}

/** Opens a place of the page and logs in by a token. */
export async function login(page, fragment = "", as = token) {
  await page.goto(`${server}/ui/${fragment}`);
  await page.getByLabel("Token").fill(as);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("navigation", { name: "Sections" }).waitFor();
}

/** Fails if axe finds a violation of WCAG 2.2 AA, in light or dark colours. */
export async function checkAccess(page, subject) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    // The policy of the page allows no script elements, so axe is evaluated.
    await page.evaluate(await axeSource());
    const { violations } = await page.evaluate(() =>
      globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }),
    );
    const found = violations.map(
      ({ id, nodes }) => `${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`).join("; ")}`,
    );
    assert.deepEqual(found, [], `${subject}, ${colorScheme}`);
  }
  await page.emulateMedia({ colorScheme: "light" });
}

let axe;
async function axeSource() {
  axe ??= require("axe-core").source;
  return axe;
}

/** Takes a picture for the documentation. */
export async function picture(page, name) {
  if (!pictures) return;
  await mkdir(pictures, { recursive: true });
  await page.screenshot({ path: path.join(pictures, `${name}.png`) });
}

/** Waits until a condition holds. */
export async function until(condition, subject) {
  const begun = Date.now();
  for (;;) {
    if (await condition()) return;
    assert.ok(Date.now() - begun < LIMIT, `waited for: ${subject}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
