// Defaults of an object: unowned fields that the server sets again when they are removed.

import { type Client, objectPath } from "../api/client.ts";
import type { Json, KubeObject, Resource } from "../api/types.ts";
import { type Path, isEqual, isMap, pathKey, valueAt } from "./fields.ts";
import { ownership } from "./owners.ts";

/**
 * Returns the keys of the paths that are defaults. A dry run replaces the object by one without its unowned fields: the fields
 * that the result has again are defaults. Nothing is stored.
 */
export async function findDefaults(client: Client, resource: Resource, object: KubeObject): Promise<Set<string>> {
  const unowned = ownership(object).unowned.filter((path) => path[0] !== "metadata" && path[0] !== "status");
  if (unowned.length === 0) return new Set();
  const reduced = without(object as unknown as Json, new Set(unowned.map(pathKey)), []) as unknown as KubeObject;
  const path = objectPath(resource, object.metadata.namespace ?? "", object.metadata.name);
  const result = await client.json<KubeObject>(`${path}?dryRun=All`, {
    method: "PUT",
    contentType: "application/json",
    body: JSON.stringify(reduced),
  });
  const isDefault = (place: Path): boolean =>
    isEqual(valueAt(result as unknown as Json, place), valueAt(object as unknown as Json, place));
  return new Set(unowned.filter(isDefault).map(pathKey));
}

/** Returns a copy of a value without some of its fields. Items of lists stay, so that indexes keep their meaning. */
function without(value: Json, removed: ReadonlySet<string>, path: Path): Json {
  if (Array.isArray(value)) return value.map((item, index) => without(item, removed, [...path, index]));
  if (!isMap(value)) return value;
  const kept = Object.entries(value).filter(([name]) => !removed.has(pathKey([...path, name])));
  return Object.fromEntries(kept.map(([name, child]) => [name, without(child, removed, [...path, name])]));
}
