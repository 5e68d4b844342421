// Tests of the ownership model, of the YAML lines and of differences.

import assert from "node:assert/strict";
import { test } from "node:test";

import type { Json, KubeObject } from "../api/types.ts";
import { Contests, writers } from "./contests.ts";
import { differences } from "./diff.ts";
import { type Path, isEqual, listKinds, optionText, pathText, valueAt } from "./fields.ts";
import { objectLines } from "./margins.ts";
import { migrated } from "./migrate.ts";
import { ownership } from "./owners.ts";
import { configuration, ownedFields } from "./pick.ts";
import { yamlLines } from "./yamlLines.ts";

const CONTAINER = 'k:{"name":"main"}';
const PORT = 'k:{"containerPort":80,"protocol":"TCP"}';

function web(): KubeObject {
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: {
      name: "web",
      namespace: "shop",
      uid: "1",
      labels: { app: "web", "example.com/a,b": "x" },
      finalizers: ["example.com/keep"],
      managedFields: [
        {
          manager: "platform",
          operation: "Apply",
          apiVersion: "apps/v1",
          fieldsV1: {
            "f:metadata": { "f:labels": { "f:app": {}, "f:example.com/a,b": {} }, "f:finalizers": { 'v:"example.com/keep"': {} } },
            "f:spec": {
              "f:replicas": {},
              "f:selector": {},
              "f:template": {
                "f:spec": {
                  "f:containers": {
                    [CONTAINER]: {
                      ".": {},
                      "f:name": {},
                      "f:image": {},
                      "f:ports": { [PORT]: { ".": {}, "f:containerPort": {}, "f:protocol": {} } },
                    },
                  },
                },
              },
            },
          },
        },
        {
          manager: "autoscaler",
          operation: "Update",
          apiVersion: "apps/v1",
          subresource: "scale",
          fieldsV1: { "f:spec": { "f:replicas": {} } },
        },
      ],
    } as KubeObject["metadata"],
    spec: {
      replicas: 2,
      paused: false,
      selector: { matchLabels: { app: "web" } },
      template: {
        spec: {
          containers: [
            { name: "other", image: "b" },
            { name: "main", image: "a", ports: [{ containerPort: 80, protocol: "TCP" }] },
          ],
        },
      },
    },
  };
}

function ownersAt(object: KubeObject, path: Path): string[] {
  return (
    ownership(object)
      .at(path)
      ?.owners.map(({ entry }) => entry.manager) ?? []
  );
}

test("fields have the owners of their list items and values", () => {
  const object = web();
  const containers = ["spec", "template", "spec", "containers"];
  assert.deepEqual(ownersAt(object, ["spec", "replicas"]), ["platform", "autoscaler"]);
  assert.deepEqual(ownersAt(object, [...containers, 1, "image"]), ["platform"]);
  assert.deepEqual(ownersAt(object, [...containers, 0, "image"]), []);
  assert.deepEqual(ownersAt(object, [...containers, 1, "ports", 0, "protocol"]), ["platform"]);
  assert.deepEqual(ownersAt(object, ["metadata", "finalizers", 0]), ["platform"]);
});

test("parts of an atomic value have the owner of the whole", () => {
  const found = ownership(web()).at(["spec", "selector", "matchLabels", "app"]);
  assert.deepEqual([found?.owners.length, found?.isAtomic], [1, true]);
});

test("fields without owner are told apart", () => {
  const object = web();
  const kind = (path: Path): string | undefined => ownership(object, new Set([".spec/.paused"])).at(path)?.unowned;
  assert.equal(kind(["metadata", "uid"]), "system");
  assert.equal(kind(["spec", "paused"]), "default");
  assert.equal(kind(["spec", "template", "spec", "containers", 0, "image"]), "none");
  assert.equal(kind(["spec", "template"]), undefined);
});

test("managers of one object have different colours", () => {
  const object = web();
  object.metadata.managedFields = Array.from({ length: 10 }, (_, index) => ({
    manager: `m${index}`,
    operation: "Apply",
    apiVersion: "v1",
  }));
  assert.equal(new Set(ownership(object).owners.map(({ colour }) => colour)).size, 10);
});

test("each line of the YAML has the path of its field", () => {
  const { text, paths, isFirst } = objectLines(web());
  const lines = text.split("\n");
  assert.equal(lines.length, paths.length);
  const pathOf = (line: string): Path => paths[lines.findIndex((shown) => shown.trim() === line)] as Path;
  assert.deepEqual(pathOf("replicas: 2"), ["spec", "replicas"]);
  assert.deepEqual(pathOf("- name: main"), ["spec", "template", "spec", "containers", 1, "name"]);
  assert.deepEqual(pathOf("- containerPort: 80"), ["spec", "template", "spec", "containers", 1, "ports", 0, "containerPort"]);
  assert.deepEqual(pathOf("- example.com/keep"), ["metadata", "finalizers", 0]);
  assert.ok(isFirst.every(Boolean));
  assert.ok(!text.includes("managedFields"));
});

test("lines of a long text have the path of the text", () => {
  const { text, paths, isFirst } = yamlLines({ a: "one\ntwo\n", "b: #": [], c: [[1]], d: "<img src=x>" });
  assert.equal(text.split("\n").length, paths.length);
  assert.deepEqual(paths.slice(0, 3), [["a"], ["a"], ["a"]]);
  assert.deepEqual(isFirst.slice(0, 3), [true, false, false]);
  assert.deepEqual(paths.slice(3), [["b: #"], ["c"], ["c", 0, 0], ["d"]]);
});

test("path texts have the form of conflicts", () => {
  const object = web() as unknown as Json;
  const kinds = listKinds(web().metadata.managedFields ?? []);
  const ports: Path = ["spec", "template", "spec", "containers", 1, "ports", 0];
  assert.equal(
    pathText(ports, object, kinds),
    '.spec.template.spec.containers[name="main"].ports[containerPort=80,protocol="TCP"]',
  );
  assert.equal(pathText(["metadata", "finalizers", 0], object, kinds), '.metadata.finalizers[="example.com/keep"]');
  assert.equal(optionText(["metadata", "labels", "example.com/a,b"], object, kinds), '.metadata.labels["example.com/a,b"]');
  assert.equal(optionText(ports, object, kinds), pathText(ports, object, kinds));
});

test("items of associative lists are compared by key", () => {
  const [before, after] = [web(), web()];
  const spec = after["spec"] as { replicas: number; paused?: boolean; template: { spec: { containers: Json[] } } };
  spec.replicas = 3;
  delete spec.paused;
  spec.template.spec.containers.reverse();
  (spec.template.spec.containers[0] as { image: string }).image = "c";
  spec.template.spec.containers.push({ name: "new", image: "n" });
  const kinds = listKinds(before.metadata.managedFields ?? []);
  const found = differences(before as unknown as Json, after as unknown as Json, kinds).map(({ kind, text }) => `${kind} ${text}`);
  const container = ".spec.template.spec.containers";
  assert.deepEqual(
    found.sort(),
    [
      `added ${container}[name="new"].image`,
      `added ${container}[name="new"].name`,
      `changed ${container}[name="main"].image`,
      "changed .spec.replicas",
      "removed .spec.paused",
    ].sort(),
  );
});

test("configuration has the fields of a manager only", () => {
  const object = web();
  const fields = ownedFields(object, ({ entry }) => entry.manager === "platform");
  const config = configuration(object, fields.values());
  assert.deepEqual(config, {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web", namespace: "shop", labels: { app: "web", "example.com/a,b": "x" }, finalizers: ["example.com/keep"] },
    spec: {
      replicas: 2,
      selector: { matchLabels: { app: "web" } },
      template: { spec: { containers: [{ name: "main", image: "a", ports: [{ containerPort: 80, protocol: "TCP" }] }] } },
    },
  });
  // An item keeps its key even if only another field of it is chosen.
  const one = configuration(object, [["spec", "template", "spec", "containers", 1, "image"]]);
  assert.deepEqual(valueAt(one, ["spec", "template", "spec", "containers"]), [{ name: "main", image: "a" }]);
});

test("values that inherit names from Object are no fields", () => {
  assert.equal(valueAt({}, ["constructor"]), undefined);
  assert.equal(isEqual({ toString: 1 }, { a: 1 }), false);
});

test("managers that write a field in turn contest it", () => {
  const contests = new Contests();
  for (const [time, manager] of [
    [0, "a"],
    [1, "b"],
    [2, "a"],
  ] as [number, string][])
    contests.add(".spec.replicas", [manager], time);
  assert.deepEqual(contests.found(3), []);
  contests.add(".spec.replicas", ["b", "c"], 3);
  assert.deepEqual(contests.found(3), [], "the manager is not known");
  contests.add(".spec.replicas", ["b"], 4);
  assert.deepEqual(contests.found(5), [{ field: ".spec.replicas", managers: ["a", "b"], count: 4 }]);
  assert.deepEqual(contests.found(3_600_001), [], "an hour later");
});

test("writer of a version is the manager that gained fields", () => {
  const entry = (manager: string, fieldsV1: Json, time: string) => ({
    manager,
    operation: "Apply",
    apiVersion: "apps/v1",
    fieldsV1,
    time,
  });
  const version = (...managedFields: ReturnType<typeof entry>[]): KubeObject => ({
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web", managedFields },
  });
  const before = version(entry("a", { "f:spec": { "f:replicas": {} } }, "1"), entry("b", { "f:spec": { "f:paused": {} } }, "1"));
  const after = version(entry("a", {}, "1"), entry("b", { "f:spec": { "f:paused": {}, "f:replicas": {} } }, "2"));
  assert.deepEqual(writers(before, after), ["b"]);
});

test("fields of updates move to the applies of a manager", () => {
  const entry = (manager: string, operation: string, fieldsV1: Json) => ({ manager, operation, apiVersion: "apps/v1", fieldsV1 });
  const updates = entry("kubectl-client-side-apply", "Update", {
    "f:spec": { "f:replicas": {}, "f:template": { ".": {}, "f:x": {} } },
  });
  assert.deepEqual(migrated([updates], 0, "kubectl"), [{ ...updates, manager: "kubectl", operation: "Apply" }]);
  const applies = entry("kubectl", "Apply", { "f:spec": { "f:paused": {}, "f:template": {} } });
  const [only, ...rest] = migrated([applies, updates], 1, "kubectl");
  assert.deepEqual(rest, []);
  assert.deepEqual(only?.fieldsV1, { "f:spec": { "f:paused": {}, "f:replicas": {}, "f:template": { ".": {}, "f:x": {} } } });
  assert.throws(() => migrated([{ ...applies, apiVersion: "apps/v1beta1" }, updates], 1, "kubectl"));
});
