// Flows through the page at /ui, as a person does them. The argument is the name of a flow.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

import { NARROW, WIDE, apply, ask, checkAccess, login, picture, server, token, until, withPage } from "./browser.mjs";

const DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments";
const LIMITS = "/api/v1/namespaces/shop/limitranges";
const HOSTILE = '<img src=x onerror="alert(1)">';

async function makeShop() {
  await ask("POST", "/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop" } });
}

function configMap(name, labels = {}, data = { colour: "blue" }) {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, labels }, data };
}

/** Returns an object of a kind that no controller creates, with the short name `limits`. */
function limitRange(name, labels = {}) {
  return { apiVersion: "v1", kind: "LimitRange", metadata: { name, labels }, spec: { limits: [] } };
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
  await apply(`${DEPLOYMENTS}/web`, "autoscaler", {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web" },
    spec: { replicas },
  });
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
    for (const name of ["a", "b", "c"]) await ask("POST", LIMITS, limitRange(`settings-${name}`, { tier: name }));
    await withPage(WIDE, async (page) => {
      await login(page);
      await page.getByRole("combobox", { name: "Kind" }).focus();
      await page.keyboard.type("limits");
      await page
        .getByRole("option", { name: /limitranges/ })
        .first()
        .waitFor();
      await page.keyboard.press("Enter");
      await page.getByRole("link", { name: "settings-a" }).waitFor();
      await page.getByRole("combobox", { name: "Namespace" }).focus();
      await page.keyboard.type("shop");
      await page.getByRole("option", { name: "shop" }).waitFor();
      await page.keyboard.press("Enter");
      await page.getByText("3 objects", { exact: true }).waitFor();
      await page.getByText("live", { exact: true }).waitFor();
      await checkAccess(page, "objects");

      await ask("POST", LIMITS, limitRange("settings-bb"));
      await page.getByText("4 objects", { exact: true }).waitFor();
      const names = async () => page.getByRole("gridcell").getByRole("link").allTextContents();
      assert.deepEqual(await names(), ["settings-a", "settings-b", "settings-bb", "settings-c"]);
      await ask("DELETE", `${LIMITS}/settings-bb`);
      await page.getByText("3 objects", { exact: true }).waitFor();

      await page.getByLabel("Labels").fill("tier in (a,c)");
      await page.keyboard.press("Enter");
      await page.getByText("2 objects", { exact: true }).waitFor();
      // Changes of objects that the labels do not select are not shown.
      await ask("POST", LIMITS, limitRange("settings-d", { tier: "d" }));
      await ask("POST", LIMITS, limitRange("settings-e", { tier: "a" }));
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
      await login(page, "#/objects/core/limitranges?namespace=shop");
      await page.getByRole("link", { name: "settings-a" }).waitFor();
      await checkAccess(page, "objects on a phone");
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
        // The selector is replaced as a whole: its parts have the owner of the whole.
        ["web:1", "platform"],
        ["name: RELEASE", "ci"],
        ["build:", "ci"],
        ["terminationGracePeriodSeconds", "no manager"],
        ["matchLabels", "platform"],
        ["template:", ""],
        ["uid:", ""],
      ]) {
        const shown = await marginOf(page, line);
        assert.equal(shown, owner, line);
      }
      await page.getByRole("button", { name: "Find defaults" }).click();
      await page.getByText(/of \d+ fields without a manager are defaults/).waitFor();
      assert.equal(await marginOf(page, "terminationGracePeriodSeconds"), "default");
      await checkAccess(page, "owners");
      await picture(page, "owners");

      await page.getByRole("checkbox", { name: /^ci/ }).check();
      await until(
        () => page.evaluate(() => document.querySelector(".editor").shadowRoot.querySelectorAll(".owner.is-dimmed").length > 5),
        "dimmed lines",
      );
      const dimmed = (text) =>
        page.evaluate((text) => {
          const lines = [...document.querySelector(".editor").shadowRoot.querySelectorAll(".cm-line")];
          return lines.find((line) => line.textContent.includes(text)).classList.contains("cm-dimmed");
        }, text);
      assert.equal(await dimmed("name: RELEASE"), false);
      assert.equal(await dimmed("web:1"), true);
      await page.getByRole("checkbox", { name: /^ci/ }).uncheck();

      await apply(
        `${DEPLOYMENTS}/web`,
        "ci",
        { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web" }, spec: { replicas: 5 } },
        { force: "true" },
      );
      await page.getByText("replicas: 5").waitFor();
      await until(async () => (await marginOf(page, "replicas: 5")) === "ci", "the new owner");
      const recent = await page.evaluate(() =>
        [...document.querySelector(".editor").shadowRoot.querySelectorAll(".cm-recent")].map((line) => line.textContent.trim()),
      );
      assert.ok(recent.includes("replicas: 5") && !recent.includes("paused: false"), recent.join());
      await page.getByText("Changed in the last minute").waitFor();

      for (const [manager, replicas] of [
        ["platform", 3],
        ["ci", 4],
        ["platform", 5],
      ]) {
        const change = {
          apiVersion: "apps/v1",
          kind: "Deployment",
          metadata: { name: "web" },
          spec: { ...(manager === "platform" ? deployment().spec : {}), replicas },
        };
        await apply(`${DEPLOYMENTS}/web`, manager, change, { force: "true" });
        await page.getByText(`replicas: ${replicas}`).waitFor();
      }
      await page.getByText("Tug of war: .spec.replicas was changed 4 times in the last hour, by ci and platform.").waitFor();
      await checkAccess(page, "tug of war");

      // The caret explains a line for those who do not see the margin.
      await page.getByText("replicas: 5").click();
      await page.getByText(/^Owned by platform \(Apply\)/).waitFor();
      await page.getByText(".spec.replicas", { exact: true }).last().waitFor();

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

  /** A person previews an apply, decides about its conflicts, and applies. */
  async previews() {
    await makeShop();
    await makeDeployment();
    await apply(`${DEPLOYMENTS}/web`, "ci", {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "web", annotations: { build: "417", "example.com/note": "kept" } },
    });
    const manifest = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations:
    build: "418" # the number of the build
spec:
  replicas: 5
  minReadySeconds: 10
  template:
    spec:
      containers:
        - name: main
          image: registry.example.com/web:2
`;
    const stored = async () => ask("GET", `${DEPLOYMENTS}/web`);
    await withPage(WIDE, async (page) => {
      await login(page, "#/apply");
      await page.getByLabel("Field manager").fill("ci");
      await page.getByLabel("Namespace, if a manifest has none").fill("shop");
      await page
        .getByLabel("File")
        .setInputFiles({ name: "web.yaml", mimeType: "application/yaml", buffer: Buffer.from(manifest) });
      const before = await stored();
      await page.getByRole("button", { name: "Preview" }).click();
      await page.getByRole("heading", { name: "3 conflicts" }).waitFor();
      const row = (region, field) =>
        page
          .getByRole("region", { name: region })
          .getByRole("row")
          .filter({ has: page.getByText(field, { exact: true }) });
      const cells = async (region, field) =>
        (await row(region, field).first().getByRole("cell").allTextContents()).map((text) => text.trim());
      assert.deepEqual(await cells("Changes", ".spec.minReadySeconds"), ["Added", ".spec.minReadySeconds", "–", "10"]);
      assert.deepEqual(await cells("Changes", ".metadata.annotations.build"), [
        "Changed",
        ".metadata.annotations.build",
        "417",
        "418",
      ]);
      assert.deepEqual(await cells("Changes", ".metadata.annotations.example.com/note"), [
        "Removed",
        ".metadata.annotations.example.com/note",
        "kept",
        "–",
      ]);
      const image = '.spec.template.spec.containers[name="main"].image';
      assert.deepEqual((await cells("Conflicts", image)).slice(1, 4), [
        "platform (Apply)",
        "registry.example.com/web:1",
        "registry.example.com/web:2",
      ]);
      const rows = await row("Conflicts", ".spec.replicas").all();
      const owners = await Promise.all(rows.map(async (row) => (await row.getByRole("cell").allTextContents())[1]));
      assert.deepEqual(owners.map((text) => text.trim()).sort(), ["autoscaler (Apply)", "platform (Apply)"]);
      assert.deepEqual((await stored()).metadata.resourceVersion, before.metadata.resourceVersion, "a preview stores nothing");
      assert.ok(await page.getByRole("button", { name: "Apply", exact: true }).isDisabled());
      await checkAccess(page, "previews");
      await page.getByRole("heading", { name: "3 conflicts" }).scrollIntoViewIfNeeded();
      await picture(page, "conflicts");

      await page.getByLabel(`Decision about ${image}`).selectOption("force");
      await page.getByLabel("Decision about .spec.replicas").first().selectOption("share");
      await page.getByRole("button", { name: "Put the decisions into the manifest" }).click();
      await page.getByRole("heading", { name: "1 conflict", exact: true }).waitFor();
      const text = await page.evaluate(() => document.querySelector(".editor").shadowRoot.querySelector(".cm-content").innerText);
      assert.match(text, /replicas: 2/);
      assert.match(text, /# the number of the build/);
      await page.getByLabel(`Decision about ${image}`).selectOption("force");
      await page.getByRole("button", { name: "Apply", exact: true }).click();
      await page.getByText("Applied.").waitFor();
      const after = await stored();
      assert.equal(after.spec.replicas, 2);
      assert.equal(after.spec.template.spec.containers[0].image, "registry.example.com/web:2");
      const managers = after.metadata.managedFields
        .filter(({ fieldsV1 }) => fieldsV1["f:spec"]?.["f:replicas"])
        .map(({ manager }) => manager);
      assert.deepEqual(managers.sort(), ["autoscaler", "ci", "platform"]);
      await page.getByRole("link", { name: "Open the object" }).click();
      await page.getByRole("heading", { name: /^web/ }).waitFor();
    });
    await withPage(NARROW, async (page) => {
      await login(page, "#/apply");
      await page.getByLabel("Field manager").fill("new");
      await page.getByLabel("File").setInputFiles({
        name: "web.yaml",
        mimeType: "application/yaml",
        buffer: Buffer.from(
          "kind: ConfigMap\napiVersion: v1\nmetadata: {name: made, namespace: shop}\ndata: {a: b}\n---\nkind: Nothing\napiVersion: v1\nmetadata: {name: x}\n",
        ),
      });
      await page.getByRole("button", { name: "Preview" }).click();
      await page.getByText("The object does not exist and would be created.").waitFor();
      await page.getByText("The server has no kind Nothing in v1.").waitFor();
      await checkAccess(page, "previews on a phone");
    });
  },

  /** A person takes fields over, gives them up, and moves the fields of updates to applies. */
  async ownership() {
    await makeShop();
    await makeDeployment();
    await ask(
      "PATCH",
      `${DEPLOYMENTS}/web?fieldManager=kubectl-client-side-apply`,
      { spec: { minReadySeconds: 7 } },
      "application/merge-patch+json",
    );
    const managersOf = async (field) => {
      const { metadata } = await ask("GET", `${DEPLOYMENTS}/web`);
      return metadata.managedFields
        .filter(({ fieldsV1 }) => fieldsV1["f:spec"]?.[`f:${field}`])
        .map(({ manager, operation }) => `${manager} ${operation}`)
        .sort();
    };
    const takeOrGive = async (page, line, button) => {
      await page.getByText(line).click();
      await page.getByRole("button", { name: button }).click();
    };
    await withPage(WIDE, async (page) => {
      await login(page, "#/object/apps/deployments/shop/web");
      await takeOrGive(page, "minReadySeconds: 7", "Become owner…");
      await page.getByRole("dialog").getByLabel("Field manager").fill("autoscaler");
      await checkAccess(page, "take over");
      await page.keyboard.press("Enter");
      // The value stays, so that the manager shares the field.
      await page.getByRole("heading", { name: /Deployment web/ }).waitFor();
      await page.getByRole("button", { name: "Apply", exact: true }).click();
      await page.getByText("Applied.").waitFor();
      assert.deepEqual(await managersOf("minReadySeconds"), ["autoscaler Apply", "kubectl-client-side-apply Update"]);
      assert.deepEqual(await managersOf("replicas"), ["autoscaler Apply", "platform Apply"]);

      await page.getByRole("link", { name: "Open the object" }).click();
      await takeOrGive(page, "replicas: 2", "Give up…");
      await page.getByRole("dialog").getByLabel("Field manager").selectOption("autoscaler");
      await page.getByRole("dialog").getByRole("button", { name: "Preview" }).click();
      await page.getByText("stays with platform (Apply)").waitFor();
      await page.getByRole("button", { name: "Apply", exact: true }).click();
      await page.getByText("Applied.").waitFor();
      assert.deepEqual(await managersOf("replicas"), ["platform Apply"]);

      await page.getByRole("link", { name: "Open the object" }).click();
      await page.getByRole("button", { name: "Move the fields of kubectl-client-side-apply to Server-Side Apply" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("button", { name: "Preview" }).click();
      await dialog.getByText("kubectl (Apply)").waitFor();
      assert.deepEqual(await managersOf("minReadySeconds"), ["autoscaler Apply", "kubectl-client-side-apply Update"]);
      await dialog.getByRole("button", { name: "Move" }).click();
      await dialog.waitFor({ state: "hidden" });
      assert.deepEqual(await managersOf("minReadySeconds"), ["autoscaler Apply", "kubectl Apply"]);
    });
  },

  /** A person looks up the managers of a namespace, the relatives of an object, and who may change it. */
  async surroundings() {
    await makeShop();
    await makeDeployment();
    const owner = await reference(`${DEPLOYMENTS}/web`);
    const reference1 = { apiVersion: owner.apiVersion, kind: owner.kind, name: owner.name, uid: owner.uid };
    const child = configMap("child");
    child.metadata.ownerReferences = [reference1];
    const made = await apply("/api/v1/namespaces/shop/configmaps/child", "platform", child);
    const grandchild = configMap("grandchild");
    grandchild.metadata.ownerReferences = [{ apiVersion: "v1", kind: "ConfigMap", name: "child", uid: made.metadata.uid }];
    await apply("/api/v1/namespaces/shop/configmaps/grandchild", "ci", grandchild);
    const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop";
    const [apiVersion, apiGroup] = ["rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"];
    await ask("POST", `${rbac}/roles`, {
      apiVersion,
      kind: "Role",
      metadata: { name: "reader" },
      rules: [{ apiGroups: ["apps"], resources: ["deployments"], verbs: ["get"] }],
    });
    await ask("POST", `${rbac}/rolebindings`, {
      apiVersion,
      kind: "RoleBinding",
      metadata: { name: "reader" },
      roleRef: { apiGroup, kind: "Role", name: "reader" },
      subjects: [{ apiGroup, kind: "User", name: "alice" }],
    });
    await withPage(WIDE, async (page) => {
      await login(page, "#/managers?namespace=shop");
      await page.getByText(/\d+ managers in \d+ objects\./).waitFor();
      await page.getByText("platform", { exact: true }).click();
      await page.getByRole("link", { name: "ConfigMap child" }).waitFor();
      await checkAccess(page, "managers");
      await page.getByRole("link", { name: "Deployment web" }).click();

      await page.getByRole("tab", { name: "Related objects" }).click();
      await page.getByRole("link", { name: "ConfigMap child", exact: true }).waitFor();
      await page.getByRole("link", { name: "ConfigMap grandchild", exact: true }).click();
      await page.getByRole("heading", { name: /^grandchild/ }).waitFor();
      await page.getByRole("tab", { name: "Related objects" }).click();
      await page.getByRole("link", { name: "Deployment web" }).waitFor();
      await checkAccess(page, "related");
      await page.getByRole("link", { name: "Deployment web" }).click();

      await page.getByRole("tab", { name: "Permissions" }).click();
      const answers = async (subject) =>
        page
          .getByRole("row")
          .filter({ has: page.getByRole("rowheader", { name: subject, exact: true }) })
          .getByRole("cell")
          .allTextContents();
      await until(async () => (await answers("You")).join() === "yes,yes,yes,yes,yes,yes,yes", "own permissions");
      await page.getByRole("button", { name: "Ask about everyone with a role here" }).click();
      await until(async () => (await answers("User alice")).join() === "yes,no,no,no,no,no,no", "permissions of alice");
      await checkAccess(page, "permissions");
      await page.getByLabel("User", { exact: true }).fill("bob");
      await page.getByRole("button", { name: "Ask", exact: true }).click();
      await until(async () => (await answers("bob")).join() === "no,no,no,no,no,no,no", "permissions of bob");
    });
  },

  /** A table of many objects is usable before all are loaded. */
  async many() {
    const count = Number(process.env.HOLDFAST_OBJECTS ?? 3_000);
    await makeShop();
    await fill(count);
    await withPage(WIDE, async (page) => {
      await login(page);
      const times = {};
      const timed = async (name, step) => {
        const begun = performance.now();
        await step();
        times[name] = Math.round(performance.now() - begun);
      };
      const total = count.toLocaleString("en");
      await timed("first rows", async () => {
        await page.goto(`${server}/ui/#/objects/core/limitranges?namespace=shop`);
        await page.getByRole("link", { name: "limits-000000" }).waitFor();
      });
      await page.getByText(`500 of ${total}`).waitFor();
      await page.getByRole("grid").focus();
      await page.keyboard.press("End");
      await page.getByRole("link", { name: "limits-000499" }).waitFor();
      // The table goes on when its end is reached.
      await page.getByText(new RegExp(`^(1,000|1,500) of ${total}`)).waitFor();
      const last = `limits-${String(count - 1).padStart(6, "0")}`;
      await timed("search in all", async () => {
        await page.getByLabel("Search").fill(last);
        await page.getByText(`1 found in ${total} objects`).waitFor();
      });
      await page.getByRole("link", { name: last }).waitFor();
      await timed("search again", async () => {
        await page.getByLabel("Search").fill("limits-0000");
        await page.getByText(`100 found in ${total} objects`).waitFor();
      });
      await page.getByLabel("Search").fill("");
      await page.getByText(`${total} objects`, { exact: true }).waitFor();
      await page.getByRole("grid").focus();
      await timed("jump to the end", async () => {
        await page.keyboard.press("End");
        await page.getByRole("link", { name: last }).waitFor();
      });
      await timed("change of the watch", async () => {
        await ask("POST", LIMITS, limitRange(`${last}-more`));
        await page.getByRole("link", { name: `${last}-more` }).waitFor();
      });
      const rows = await page.getByRole("row").count();
      assert.ok(rows < 100, `${rows} rows are in the document`);
      const memory = await page.evaluate(() => Math.round((performance.memory?.usedJSHeapSize ?? 0) / 2 ** 20));
      console.log(`${total} objects: ${JSON.stringify(times)} ms, ${memory} MiB of heap`);
    });
  },

  /** A person with few rights sees what these allow, and reads why the rest is missing. */
  async restricted() {
    await makeShop();
    await ask("POST", LIMITS, limitRange("settings-a"));
    await ask("POST", "/api/v1/namespaces/default/limitranges", limitRange("settings-b"));
    await makeDeployment();
    const [apiVersion, apiGroup] = ["rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"];
    const rbac = `/apis/${apiVersion}/namespaces/shop`;
    const rules = [{ apiGroups: ["", "apps"], resources: ["limitranges", "deployments"], verbs: ["get", "list", "watch"] }];
    await ask("POST", `${rbac}/roles`, { apiVersion, kind: "Role", metadata: { name: "reader" }, rules });
    const subjects = [{ apiGroup, kind: "User", name: "alice" }];
    await ask("POST", `${rbac}/rolebindings`, {
      apiVersion,
      kind: "RoleBinding",
      metadata: { name: "reader" },
      roleRef: { apiGroup, kind: "Role", name: "reader" },
      subjects,
    });
    await withPage(WIDE, async (page) => {
      await login(page, "#/objects/core/limitranges", process.env.HOLDFAST_USER_TOKEN);
      await page.getByText("these are the ones that you may read").waitFor();
      await page.getByText("1 object", { exact: true }).waitFor();
      await page.getByRole("link", { name: "settings-a" }).waitFor();
      await page.goto(`${server}/ui/#/objects/core/secrets?namespace=shop`);
      await page.getByText(/secrets is forbidden: User "alice" cannot list resource/).waitFor();
      await checkAccess(page, "a denial");
      await page.goto(`${server}/ui/#/object/apps/deployments/shop/web`);
      await page.getByText("replicas: 2").waitFor();
      await page.getByRole("button", { name: "Find defaults" }).click();
      await page.getByText(/The dry run failed: .*forbidden/).waitFor();
      await page.getByRole("tab", { name: "Events" }).click();
      await page.getByText(/events is forbidden/).waitFor();
      await page.getByRole("tab", { name: "Permissions" }).click();
      await page.getByRole("row", { name: /^You yes yes yes no no no no$/ }).waitFor();
      await page.getByRole("button", { name: "Ask about everyone with a role here" }).click();
      await page.getByText("You may not list the role bindings, which name the subjects.").waitFor();
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
      const images = await page.evaluate(
        () =>
          document.querySelectorAll("img").length +
          (document.querySelector(".editor")?.shadowRoot?.querySelectorAll("img").length ?? 0),
      );
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

/** Makes objects, several at a time. */
async function fill(count) {
  let next = 0;
  const work = async () => {
    while (next < count) await ask("POST", LIMITS, limitRange(`limits-${String(next++).padStart(6, "0")}`));
  };
  await Promise.all(Array.from({ length: 16 }, work));
}

async function reference(path) {
  const { apiVersion, kind, metadata } = await ask("GET", path);
  return { apiVersion, kind, name: metadata.name, namespace: metadata.namespace, uid: metadata.uid };
}

const name = process.argv[2];
assert.ok(Object.hasOwn(flows, name), `no flow is named ${name}`);
await flows[name]();
