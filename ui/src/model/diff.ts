// Differences between two versions of an object.

import type { Json } from "../api/types.ts";
import { type ListKinds, type Path, type Step, isEqual, isMap, pathText, patternOf } from "./fields.ts";

/** Difference of one field. */
export interface Difference {
  kind: "added" | "changed" | "removed";
  /** Path in the object that has the field: the new object, except for removed fields. */
  path: Path;
  text: string;
  before?: Json;
  after?: Json;
}

/** Members of metadata that change with every write. */
const IGNORED = new Set(["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"]);

/** Returns the differences between two objects. Items of associative lists are matched by their keys. */
export function differences(before: Json, after: Json, kinds: ListKinds): Difference[] {
  const found: Difference[] = [];
  const add = (kind: Difference["kind"], path: Path, root: Json, values: { before?: Json; after?: Json }): void => {
    found.push({ kind, path, text: pathText(path, root, kinds), ...values });
  };
  // Shows an added or removed value by its leaves, so that each field has its own line.
  const whole = (kind: "added" | "removed", path: Path, root: Json, value: Json, pattern: string): void => {
    const isOpen =
      (isMap(value) && Object.keys(value).length > 0) || (Array.isArray(value) && value.length > 0 && kinds.has(pattern));
    if (!isOpen) return add(kind, path, root, kind === "added" ? { after: value } : { before: value });
    const steps: Step[] = Array.isArray(value) ? [...value.keys()] : Object.keys(value as object);
    for (const step of steps) {
      const child = (value as Record<Step, Json>)[step] as Json;
      whole(kind, [...path, step], root, child, patternOf(pattern, step));
    }
  };
  const compare = (left: Json, right: Json, leftPath: Path, rightPath: Path, pattern: string): void => {
    if (isEqual(left, right)) return;
    const pairs = pairsOf(left, right, kinds.get(pattern));
    if (!pairs) return add("changed", rightPath, after, { before: left, after: right });
    for (const { leftStep, rightStep } of pairs) {
      const step = rightStep ?? leftStep;
      if (step === undefined || (pattern === "/metadata" && IGNORED.has(String(step)))) continue;
      const below = patternOf(pattern, step);
      const old = leftStep === undefined ? undefined : (left as Record<Step, Json>)[leftStep];
      const fresh = rightStep === undefined ? undefined : (right as Record<Step, Json>)[rightStep];
      if (fresh === undefined) whole("removed", [...leftPath, step], before, old as Json, below);
      else if (old === undefined) whole("added", [...rightPath, step], after, fresh, below);
      else compare(old, fresh, [...leftPath, leftStep as Step], [...rightPath, rightStep as Step], below);
    }
  };
  compare(before, after, [], [], "");
  return found;
}

interface StepPair {
  leftStep?: Step | undefined;
  rightStep?: Step | undefined;
}

/** Returns the steps that belong together; none if the values are compared as a whole. */
function pairsOf(left: Json, right: Json, kind: ReturnType<ListKinds["get"]>): StepPair[] | undefined {
  if (isMap(left) && isMap(right)) {
    const names = new Set([...Object.keys(left), ...Object.keys(right)]);
    return [...names].map((name) => ({
      leftStep: Object.hasOwn(left, name) ? name : undefined,
      rightStep: Object.hasOwn(right, name) ? name : undefined,
    }));
  }
  if (!Array.isArray(left) || !Array.isArray(right) || kind === undefined || kind === "atomic") return undefined;
  const identity = (item: Json): string =>
    JSON.stringify(kind === "set" ? item : kind.keys.map((key) => (isMap(item) ? (item[key] ?? null) : null)));
  const rest = new Map(right.map((item, index) => [identity(item), index]));
  const pairs: StepPair[] = left.map((item, leftStep) => {
    const key = identity(item);
    const rightStep = rest.get(key);
    rest.delete(key);
    return { leftStep, rightStep };
  });
  return [...pairs, ...[...rest.values()].map((rightStep) => ({ rightStep }))];
}
