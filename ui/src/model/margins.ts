// The content of the margin next to each line of an object.

import type { Json, KubeObject } from "../api/types.ts";
import type { MarginLine } from "../parts/margin.ts";
import { type Path, pathKey } from "./fields.ts";
import { type OwnershipMap, ownerText } from "./owners.ts";
import { age } from "./table.ts";
import { type YamlLines, yamlLines } from "./yamlLines.ts";

/** Time for which a change is highlighted, in milliseconds. */
export const RECENT_MS = 60_000;

/** Returns the YAML of an object without its managedFields, which the margin shows. */
export function objectLines(object: KubeObject): YamlLines {
  const { managedFields: _, ...metadata } = object.metadata;
  const { apiVersion, kind, metadata: _metadata, ...rest } = object;
  return yamlLines({ apiVersion, kind, metadata, ...rest } as unknown as Json);
}

/** State of the view that the margin depends on. */
export interface MarginOptions {
  /** Indexes of the owners that are shown. All are shown if it is empty. */
  filter: ReadonlySet<number>;
  changes: ReadonlyMap<string, number>;
  now: number;
}

/** Returns the margin of each line. */
export function marginLines(lines: YamlLines, map: OwnershipMap, options: MarginOptions): MarginLine[] {
  return lines.paths.map((path) => marginLine(path, map, options));
}

function marginLine(path: Path, map: OwnershipMap, { filter, changes, now }: MarginOptions): MarginLine {
  const found = map.at(path);
  const owners = found?.owners ?? [];
  const managers = [...new Set(owners.map(({ entry }) => entry.manager))];
  const isRecent = path.some((_, index) => now - (changes.get(pathKey(path.slice(0, index + 1))) ?? 0) < RECENT_MS);
  const base = { colours: [...new Set(owners.map(({ colour }) => colour))], isRecent };
  const isDimmed = filter.size > 0 && !owners.some(({ index }) => filter.has(index));
  if (owners.length > 0) {
    const parts = owners.map((owner) => `${ownerText(owner)}, ${age(owner.entry.time, now) || "unknown time"} ago`);
    const kind = owners.length > 1 ? "shared" : "owned";
    const title = `${kind === "shared" ? "Shared by " : "Owned by "}${parts.join(" and ")}${found?.isAtomic ? "; replaced as a whole" : ""}`;
    return { ...base, label: managers.join(" + "), title, kind, isDimmed };
  }
  switch (found?.unowned) {
    case "default":
      return { ...base, label: "default", title: "A default: no manager owns the field", kind: "default", isDimmed };
    case "none":
      return { ...base, label: "no manager", title: "No manager owns the field", kind: "none", isDimmed };
    case "system":
      return { ...base, label: "", title: "Set by the server; no manager can own it", kind: "system", isDimmed };
    default:
      return { ...base, label: "", title: "", kind: "structure", isDimmed: false };
  }
}
