// The move of fields from updates to Server-Side Apply
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/#migration-between-client-side-and-server-side-apply).

import type { Json, ManagedFieldsEntry } from "../api/types.ts";
import { isMap } from "./fields.ts";

/** Returns the entries after the fields of one of them have moved to the applies of a manager. */
export function migrated(entries: readonly ManagedFieldsEntry[], from: number, to: string): ManagedFieldsEntry[] {
  const moved = entries[from];
  if (!moved) return [...entries];
  const isTarget = (entry: ManagedFieldsEntry): boolean =>
    entry.manager === to && entry.operation === "Apply" && !entry.subresource;
  const target = entries.find((entry) => isTarget(entry) && entry.apiVersion === moved.apiVersion);
  if (!target) {
    if (entries.some(isTarget))
      throw new Error(`${to} has applied in another version of the API; its next apply takes the fields over.`);
    return entries.map((entry) => (entry === moved ? { ...entry, manager: to, operation: "Apply" } : entry));
  }
  const kept = entries.filter((entry) => entry !== moved);
  return kept.map((entry) =>
    entry === target ? { ...entry, fieldsV1: union(entry.fieldsV1 ?? {}, moved.fieldsV1 ?? {}) } : entry,
  );
}

/** Returns the union of two field sets. */
function union(left: Json, right: Json): Json {
  if (!isMap(left) || !isMap(right)) return left;
  const merged: Record<string, Json> = { ...left };
  for (const [name, child] of Object.entries(right))
    merged[name] = Object.hasOwn(left, name) ? union(left[name] as Json, child) : child;
  // A path of its own that has others below it is marked by a dot.
  const isSplit = (set: Record<string, Json>): boolean => Object.keys(set).length > 0;
  if (isSplit(merged) && isSplit(left) !== isSplit(right)) merged["."] = {};
  return merged;
}
