// Flows through the page at /ui, as a person does them. The argument is the name of a flow.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

import { NARROW, WIDE, apply, ask, checkAccess, login, picture, server, token, until, withPage } from "./browser.mjs";

const DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments";
const HOSTILE = '<img src=x onerror="alert(1)">';

async function makeShop() {
  await ask("POST", "/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop" } });
}

function configMap(name, labels = {}, data = { colour: "blue" }) {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, labels }, data };
}

function deployment(changes = {}) {
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web", labels: { app: "web" } },
    spec: {
      replicas: 2,
      selector: { matchLabels: { app: "web" } },
      template: {
        metadata: { labels: { app: "web" } },
        spec: {
          containers: [
            { name: "main", image: "registry.example.com/web:1", ports: [{ containerPort: 8080, protocol: "TCP" }] },
            { name: "proxy", image: "registry.example.com/proxy:7", args: ["--port", "8080"] },
          ],
        },
      },
      ...changes,
    },
  };
}

/** Makes a Deployment of three managers, one of which shares a field. */
async function makeDeployment() {
  await apply(`${DEPLOYMENTS}/web`, "platform", deployment());
  const { replicas, ...rest } = deployment().spec;
  assert.ok(rest.selector);
  await apply(`${DEPLOYMENTS}/web`, "autoscaler", { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web" }, spec: { replicas } });
  await apply(`${DEPLOYMENTS}/web`, "ci", {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web", annotations: { build: "417" } },
    spec: { template: { spec: { containers: [{ name: "main", env: [{ name: "RELEASE", value: "4.1.7" }] }] } } },
  });
}

/** Returns the name in the margin next to the line of the YAML that contains a text. */
function marginOf(page, text) {
  return page.evaluate((text) => {
    const root = document.querySelector(".editor").shadowRoot;
    const line = [...root.querySelectorAll(".cm-line")].find((line) => line.textContent.includes(text));
    const top = line?.getBoundingClientRect().top;
    const owner = [...root.querySelectorAll(".owner")].find((owner) => Math.abs(owner.getBoundingClientRect().top - top) < 4);
    return owner?.querySelector(".name").textContent ?? "";
  }, text);
}

const flows = {
  /** A person logs in by a token, and nothing of it stays in the browser. */
  async login() {
    await withPage(WIDE, async (page, context) => {
      await page.goto(`${server}/ui`);
      assert.equal(page.url(), `${server}/ui/`);
      await checkAccess(page, "login");
      await picture(page, "login");
      await page.getByLabel("Token").fill("wrong");
      await page.keyboard.press("Enter");
      await page.getByText("The server does not accept the token.").waitFor();
      await page.getByLabel("Token").fill(token);
      await page.keyboard.press("Enter");
      await page.getByRole("grid").waitFor();
      assert.match(page.url(), /#\/objects\/core\/pods$/);
      await page.getByText("admin", { exact: true }).waitFor();
      const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
      assert.ok(!stored.includes(token), stored);
      assert.deepEqual(await context.cookies(), []);
      await page.getByRole("button", { name: "Log out" }).click();
      await page.getByLabel("Token").waitFor();
      await login(page);
      await page.reload();
      await page.getByLabel("Token").waitFor();
    });
  },

  /** A person looks for objects by kind, namespace, labels and text, with the keyboard only, while others write. */
  async objects() {
    await makeShop();
    for (const name of ["a", "b", "c"]) await ask("POST", "/api/v1/namespaces/shop/configmaps", configMap(`settings-${name}`, { tier: name }));
    await withPage(WIDE, async (page) => {
      await login(page);
      await page.getByRole("combobox", { name: "Kind" }).focus();
      await page.keyboard.type("cm");
      await page.getByRole("option", { name: /configmaps/ }).first().waitFor();
      await page.keyboard.press("Enter");
      await page.getByRole("link", { name: "settings-a" }).waitFor();
      await page.getByRole("combobox", { name: "Namespace" }).focus();
      await page.keyboard.type("shop");
      await page.getByRole("option", { name: "shop" }).waitFor();
      await page.keyboard.press("Enter");
      await page.getByText("3 objects", { exact: true }).waitFor();
      await page.getByText("live", { exact: true }).waitFor();
      await checkAccess(page, "objects");

      await ask("POST", "/api/v1/namespaces/shop/configmaps", configMap("settings-bb"));
      await page.getByText("4 objects", { exact: true }).waitFor();
      const names = async () => page.getByRole("gridcell").getByRole("link").allTextContents();
      assert.deepEqual(await names(), ["settings-a", "settings-b", "settings-bb", "settings-c"]);
      await ask("DELETE", "/api/v1/namespaces/shop/configmaps/settings-bb");
      await page.getByText("3 objects", { exact: true }).waitFor();

      await page.getByLabel("Labels").fill("tier in (a,c)");
      await page.keyboard.press("Enter");
      await page.getByText("2 objects", { exact: true }).waitFor();
      // Changes of objects that the labels do not select are not shown.
      await ask("POST", "/api/v1/namespaces/shop/configmaps", configMap("settings-d", { tier: "d" }));
      await ask("POST", "/api/v1/namespaces/shop/configmaps", configMap("settings-e", { tier: "a" }));
      await page.getByText("3 objects", { exact: true }).waitFor();
      assert.deepEqual(await names(), ["settings-a", "settings-c", "settings-e"]);
      await page.getByLabel("Labels").fill("");
      await page.keyboard.press("Enter");
      await page.getByText("5 objects", { exact: true }).waitFor();

      await page.getByRole("grid").focus();
      await page.keyboard.press("/");
      await page.keyboard.type("TINGS-C");
      await page.getByText("1 found in 5 objects").waitFor();
      assert.deepEqual(await names(), ["settings-c"]);
      await page.getByLabel("Search").fill("");
      await page.getByRole("grid").focus();
      for (const key of ["ArrowDown", "ArrowDown", "Enter"]) await page.keyboard.press(key);
      await page.getByRole("heading", { name: /^settings-c/ }).waitFor();
      await page.goBack();
      await page.getByRole("grid").waitFor();
      await page.keyboard.press("?");
      await page.getByRole("dialog").waitFor();
      await checkAccess(page, "keys");
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "hidden" });
    });
    await withPage(NARROW, async (page) => {
      await login(page, "#/objects/core/configmaps?namespace=shop");
      await page.getByRole("link", { name: "settings-a" }).waitFor();
      await checkAccess(page, "objects on a phone");
      await picture(page, "objects-narrow");
    });
  },

  /** A person sees who owns each field of a Deployment, and watches a field change. */
  async owners() {
    await makeShop();
    await makeDeployment();
    await withPage(WIDE, async (page) => {
      await login(page, "#/objects/apps/deployments");
      await page.getByRole("link", { name: "web" }).waitFor();
      await picture(page, "objects");
      await page.getByRole("link", { name: "web" }).click();
      await page.getByText("replicas: 2").waitFor();
      for (const [line, owner] of [
        ["replicas: 2", "autoscaler + platform"],
        ["web:1", "platform"],
        ["name: RELEASE", "ci"],
        ["build:", "ci"],
        ["terminationGracePeriodSeconds", "no manager"],
        ["matchLabels", ""],
        ["uid:", ""],
      ]) {
        const shown = await marginOf(page, line);
        assert.equal(shown, owner, line);
      }
      // The selector is replaced as a whole: its parts have the owner of the whole.
      await page.getByRole("button", { name: "Find defaults" }).click();
      await page.getByText(/of \d+ fields without a manager are defaults/).waitFor();
      assert.equal(await marginOf(page, "terminationGracePeriodSeconds"), "default");
      await checkAccess(page, "owners");
      await picture(page, "owners");

      await page.getByRole("checkbox", { name: /^ci/ }).check();
      await until(() => page.evaluate(() => document.querySelector(".editor").shadowRoot.querySelectorAll(".owner.is-dimmed").length > 5), "dimmed lines");
      const dimmed = (text) =>
        page.evaluate((text) => {
          const lines = [...document.querySelector(".editor").shadowRoot.querySelectorAll(".cm-line")];
          return lines.find((line) => line.textContent.includes(text)).classList.contains("cm-dimmed");
        }, text);
      assert.equal(await dimmed("name: RELEASE"), false);
      assert.equal(await dimmed("web:1"), true);
      await page.getByRole("checkbox", { name: /^ci/ }).uncheck();

      await apply(`${DEPLOYMENTS}/web`, "ci", { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web" }, spec: { replicas: 5 } }, { force: "true" });
      await page.getByText("replicas: 5").waitFor();
      await until(async () => (await marginOf(page, "replicas: 5")) === "ci", "the new owner");
      const recent = await page.evaluate(() => [...document.querySelector(".editor").shadowRoot.querySelectorAll(".cm-recent")].map((line) => line.textContent.trim()));
      assert.ok(recent.includes("replicas: 5") && !recent.includes("paused: false"), recent.join());
      await page.getByText("Changed in the last minute").waitFor();

      // The caret explains a line for those who do not see the margin.
      await page.getByText("replicas: 5").click();
      await page.getByText(/^Owned by ci \(Apply\)/).waitFor();
      await page.getByText(".spec.replicas", { exact: true }).waitFor();

      await page.getByRole("tab", { name: "Events" }).click();
      await page.getByText("The server has no events about this object.").waitFor();
    });
    await withPage(NARROW, async (page) => {
      await login(page, "#/object/apps/deployments/shop/web");
      await page.getByText("replicas: 5").waitFor();
      await checkAccess(page, "owners on a phone");
      await picture(page, "owners-narrow");
      const isTooWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
      assert.equal(isTooWide, false);
    });
  },

  /** Names that look like HTML are shown as text. */
  async hostile() {
    await makeShop();
    const hostile = configMap("harmless", {}, { [`key`]: HOSTILE });
    hostile.metadata.annotations = { note: HOSTILE };
    await apply("/api/v1/namespaces/shop/configmaps/harmless", HOSTILE, hostile);
    await ask("POST", "/api/v1/namespaces/shop/events", {
      apiVersion: "v1",
      kind: "Event",
      metadata: { name: "harmless.1" },
      involvedObject: await reference("/api/v1/namespaces/shop/configmaps/harmless"),
      type: "Normal",
      reason: "Test",
      message: HOSTILE,
    });
    await withPage(WIDE, async (page) => {
      await login(page, "#/object/core/configmaps/shop/harmless");
      await page.getByText(`note: <img`).waitFor();
      assert.equal(await marginOf(page, "note:"), HOSTILE);
      await page.getByText(HOSTILE, { exact: true }).first().waitFor();
      await page.getByRole("tab", { name: "Events" }).click();
      await page.getByRole("cell", { name: HOSTILE }).waitFor();
      const images = await page.evaluate(() => document.querySelectorAll("img").length + (document.querySelector(".editor")?.shadowRoot?.querySelectorAll("img").length ?? 0));
      assert.equal(images, 0);
      await page.goto(`${server}/ui/#/objects/core/${encodeURIComponent(HOSTILE)}`);
    });
    await withPage(WIDE, async (page) => {
      await login(page, `#/objects/core/${encodeURIComponent(HOSTILE)}`);
      await page.getByText(`The server has no resource ${HOSTILE}.`).waitFor();
      assert.equal(await page.evaluate(() => document.querySelectorAll("img").length), 0);
    });
  },

  /** A link of `holdfast ui` logs in once, as the user of the kubeconfig. */
  async session() {
    const child = spawn(process.env.HOLDFAST_BINARY, ["ui", "--no-browser", `--kubeconfig=${process.env.HOLDFAST_KUBECONFIG}`], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      const lines = createInterface({ input: child.stdout });
      const { value } = await lines[Symbol.asyncIterator]().next();
      const link = value.replace(/^Open /, "");
      const own = new URL(link).origin;
      await withPage(WIDE, async (page) => {
        await page.goto(link);
        await page.getByRole("grid").waitFor();
        assert.ok(!page.url().includes("code"), page.url());
        await page.getByText("live", { exact: true }).waitFor();
        await page.reload();
        await page.getByRole("grid").waitFor();
      });
      await withPage(WIDE, async (page) => {
        await page.goto(link);
        await page.getByText(/was used already/).waitFor();
      });
      const status = async (path, headers = {}, method = "GET") => (await fetch(own + path, { method, headers })).status;
      assert.equal(await status("/api/v1/namespaces"), 401);
      assert.equal(await status("/api/v1/namespaces", { "X-Holdfast-Session": "guess" }), 401);
      assert.equal(await status("/ui/session", {}, "POST"), 405);
      assert.equal(await status("/api/v1/namespaces", { Origin: "http://example.com" }), 403);
    } finally {
      child.kill();
    }
  },
};

async function reference(path) {
  const { apiVersion, kind, metadata } = await ask("GET", path);
  return { apiVersion, kind, name: metadata.name, namespace: metadata.namespace, uid: metadata.uid };
}

const name = process.argv[2];
assert.ok(Object.hasOwn(flows, name), `no flow is named ${name}`);
await flows[name]();
