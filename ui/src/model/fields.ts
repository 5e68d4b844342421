// Field paths, and the field sets of managedFields (FieldsV1).

import type { Json, ManagedFieldsEntry } from "../api/types.ts";

/** Step into a JSON value: the key of a map, or the index of a list. */
export type Step = string | number;

/** Path from the root of an object to a value. */
export type Path = readonly Step[];

/** Node of a FieldsV1 tree. */
export interface FieldSet {
  /** True if the set contains the path of this node itself. */
  isMember: boolean;
  /** Children by the name of their field. */
  fields: Map<string, FieldSet>;
  /** Children that are items of an associative list, with the keys of each. */
  items: { keys: Record<string, Json>; node: FieldSet }[];
  /** Children that are items of a list that is a set. */
  values: { value: Json; node: FieldSet }[];
  /** Children by index. */
  indexes: Map<number, FieldSet>;
}

/** Maximum depth of a field set. The server allows objects of 512 levels. */
const MAX_DEPTH = 600;

/** Returns the set of a FieldsV1 document. Unknown members are ignored. */
export function parseFieldSet(document: unknown, depth = 0): FieldSet {
  const set: FieldSet = { isMember: false, fields: new Map(), items: [], values: [], indexes: new Map() };
  if (!isMap(document) || depth > MAX_DEPTH) return set;
  const entries = Object.entries(document);
  set.isMember = entries.length === 0;
  for (const [key, child] of entries) {
    const rest = key.slice(2);
    if (key === ".") set.isMember = true;
    else if (key.startsWith("f:")) set.fields.set(rest, parseFieldSet(child, depth + 1));
    else if (key.startsWith("k:")) {
      const keys = parseJson(rest);
      if (isMap(keys)) set.items.push({ keys, node: parseFieldSet(child, depth + 1) });
    } else if (key.startsWith("v:")) {
      const value = parseJson(rest);
      if (value !== undefined) set.values.push({ value, node: parseFieldSet(child, depth + 1) });
    } else if (key.startsWith("i:")) set.indexes.set(Number(rest), parseFieldSet(child, depth + 1));
  }
  return set;
}

/** Returns true if the set contains paths below its own. */
export function hasChildren(set: FieldSet): boolean {
  return set.fields.size + set.items.length + set.values.length + set.indexes.size > 0;
}

/** Returns the child of the set for a step into `parent`. */
export function childOf(set: FieldSet, parent: Json, step: Step): FieldSet | undefined {
  if (typeof step === "string") return set.fields.get(step);
  const item = (parent as Json[])[step];
  const byKey = set.items.find(({ keys }) => hasKeys(item, keys));
  if (byKey) return byKey.node;
  const byValue = set.values.find(({ value }) => isEqual(value, item));
  return byValue?.node ?? set.indexes.get(step);
}

/** Returns true if the item of an associative list has the keys. */
export function hasKeys(item: Json | undefined, keys: Record<string, Json>): boolean {
  if (!isMap(item)) return false;
  // A key that the item lacks has its default in the set, which the object may not show.
  return Object.entries(keys).every(([name, value]) => isEqual(item[name], value));
}

/** Kind of a list, as field sets show it. */
export type ListKind = { keys: string[] } | "set" | "atomic";

/** Kinds of lists by the pattern of their path, in which `*` replaces items. */
export type ListKinds = Map<string, ListKind>;

/** Returns the kinds of all lists that the field sets go into. */
export function listKinds(entries: readonly ManagedFieldsEntry[]): ListKinds {
  const kinds: ListKinds = new Map();
  const visit = (set: FieldSet, pattern: string): void => {
    const [first] = set.items;
    if (first) kinds.set(pattern, { keys: Object.keys(first.keys).sort() });
    else if (set.values.length > 0) kinds.set(pattern, "set");
    for (const [name, child] of set.fields) visit(child, patternOf(pattern, name));
    for (const { node } of set.items) visit(node, patternOf(pattern, 0));
  };
  for (const entry of entries) visit(parseFieldSet(entry.fieldsV1), "");
  return kinds;
}

/** Returns the pattern of a path one step below another. */
export function patternOf(pattern: string, step: Step): string {
  return typeof step === "number" ? `${pattern}/*` : `${pattern}/${step.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** Returns the text of a path as conflicts show it: `.spec.containers[name="main"].image`. */
export function pathText(path: Path, root: Json, kinds: ListKinds): string {
  let text = "";
  let pattern = "";
  let value: Json | undefined = root;
  for (const step of path) {
    const kind = kinds.get(pattern);
    const child: Json | undefined = stepInto(value, step);
    if (typeof step === "string") text += `.${step}`;
    else if (kind === "set") text += `[=${JSON.stringify(child)}]`;
    else if (typeof kind === "object" && isMap(child)) {
      const shown = kind.keys.filter((key) => child[key] !== undefined);
      text += `[${shown.map((key) => `${key}=${JSON.stringify(child[key])}`).join(",")}]`;
    } else text += `[${step}]`;
    pattern = patternOf(pattern, step);
    value = child;
  }
  return text || ".";
}

/** Returns the text of a path as the option `forceFields` takes it: names with special characters are in brackets. */
export function optionText(path: Path, root: Json, kinds: ListKinds): string {
  let text = "";
  path.forEach((step, index) => {
    const whole = pathText(path.slice(0, index + 1), root, kinds);
    const own = whole.slice(pathText(path.slice(0, index), root, kinds).replace(/^\.$/, "").length);
    text += typeof step === "string" && !/^[\w./~-]+$/.test(step) ? `[${JSON.stringify(step)}]` : own;
  });
  return text;
}

/** Returns the value one step below another. */
export function stepInto(value: Json | undefined, step: Step): Json | undefined {
  if (typeof step === "number") return Array.isArray(value) ? value[step] : undefined;
  return isMap(value) && Object.hasOwn(value, step) ? value[step] : undefined;
}

/** Returns the value at a path. */
export function valueAt(root: Json | undefined, path: Path): Json | undefined {
  return path.reduce<Json | undefined>(stepInto, root);
}

/** Returns the key of a path for maps. */
export function pathKey(path: Path): string {
  return path
    .map((step) => (typeof step === "number" ? `#${step}` : `.${step.replaceAll("~", "~0").replaceAll("/", "~1")}`))
    .join("/");
}

/** Returns true if the value is a JSON object. */
export function isMap(value: unknown): value is Record<string, Json> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns true if two JSON values are equal. The order of members does not count. */
export function isEqual(left: Json | undefined, right: Json | undefined): boolean {
  if (left === right) return true;
  if (Array.isArray(left) && Array.isArray(right)) {
    return left.length === right.length && left.every((item, index) => isEqual(item, right[index]));
  }
  if (isMap(left) && isMap(right)) {
    const names = Object.keys(left);
    return (
      names.length === Object.keys(right).length &&
      names.every((name) => Object.hasOwn(right, name) && isEqual(left[name], right[name]))
    );
  }
  return false;
}

function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}
