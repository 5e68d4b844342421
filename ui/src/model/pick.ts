// Configurations for Server-Side Apply that consist of chosen fields of an object.

import type { Json, KubeObject } from "../api/types.ts";
import { type ListKinds, type Path, isMap, listKinds, pathKey, pathText, patternOf } from "./fields.ts";
import { type Owner, ownership } from "./owners.ts";

/** Returns the leaves that an owner owns, by the text of their path. Values that are replaced as a whole are leaves. */
export function ownedFields(object: KubeObject, owns: (owner: Owner) => boolean): Map<string, Path> {
  const kinds = listKinds(object.metadata.managedFields ?? []);
  const found = new Map<string, Path>();
  for (const { path, leafOwners } of ownership(object).all()) {
    if (leafOwners.some(owns)) found.set(pathText(path, object as unknown as Json, kinds), path);
  }
  return found;
}

/** Returns the configuration with some fields of an object, and with the keys of the list items around them. */
export function configuration(object: KubeObject, paths: Iterable<Path>): Json {
  const kinds = listKinds(object.metadata.managedFields ?? []);
  const wanted = new Set<string>();
  const around = new Set<string>();
  for (const path of paths) {
    wanted.add(pathKey(path));
    for (let length = 0; length < path.length; length += 1) around.add(pathKey(path.slice(0, length)));
  }
  const picked = pick(object as unknown as Json, [], "", { wanted, around, kinds });
  const rest = isMap(picked) ? picked : {};
  const { apiVersion, kind, metadata } = object;
  const place = { name: metadata.name, ...(metadata.namespace ? { namespace: metadata.namespace } : {}) };
  return { apiVersion, kind, ...rest, metadata: { ...place, ...(isMap(rest["metadata"]) ? rest["metadata"] : {}) } };
}

interface Choice {
  wanted: ReadonlySet<string>;
  around: ReadonlySet<string>;
  kinds: ListKinds;
}

function pick(value: Json, path: Path, pattern: string, choice: Choice): Json | undefined {
  const key = pathKey(path);
  const { wanted, around, kinds } = choice;
  if (!around.has(key)) return wanted.has(key) ? value : undefined;
  if (Array.isArray(value)) {
    const kind = kinds.get(pattern);
    const items = value.flatMap((item, index): Json[] => {
      const picked = pick(item, [...path, index], patternOf(pattern, index), choice);
      if (picked === undefined) return [];
      if (typeof kind !== "object" || !isMap(picked) || !isMap(item)) return [picked];
      const keys = kind.keys.filter((name) => item[name] !== undefined).map((name): [string, Json] => [name, item[name] as Json]);
      return [{ ...Object.fromEntries(keys), ...picked }];
    });
    return items;
  }
  if (!isMap(value)) return value;
  const entries = Object.entries(value).flatMap(([name, child]): [string, Json][] => {
    const picked = pick(child, [...path, name], patternOf(pattern, name), choice);
    return picked === undefined ? [] : [[name, picked]];
  });
  return Object.fromEntries(entries);
}
