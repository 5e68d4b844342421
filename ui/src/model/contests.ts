// Fields that several managers write in turn, as far as they were seen.

import type { KubeObject } from "../api/types.ts";
import { isEqual } from "./fields.ts";

/** Number of changes of a field, by several managers within an hour, from which on they contest it. */
const MIN_CHANGES = 4;

const HOUR_MS = 3_600_000;

/** Maximum numbers of fields, and of changes of each, that are remembered. */
const MAX_FIELDS = 1_000;
const MAX_CHANGES = 100;

/** Field that managers write in turn. */
export interface Contest {
  field: string;
  managers: string[];
  count: number;
}

/** Changes of the last hour. */
export class Contests {
  #changes = new Map<string, { time: number; manager: string }[]>();

  /** Remembers a change of a field. Changes by several or unknown managers at once do not count. */
  add(field: string, managers: readonly string[], time: number): void {
    const [manager, ...others] = managers;
    if (manager === undefined || others.length > 0) return;
    const changes = this.#changes.get(field) ?? [];
    if (!this.#changes.has(field) && this.#changes.size >= MAX_FIELDS) return;
    this.#changes.set(field, [...changes.filter((change) => time - change.time < HOUR_MS), { time, manager }].slice(-MAX_CHANGES));
  }

  /** Returns the contested fields. */
  found(now: number): Contest[] {
    return [...this.#changes].flatMap(([field, changes]) => {
      const recent = changes.filter(({ time }) => now - time < HOUR_MS);
      const managers = [...new Set(recent.map(({ manager }) => manager))].sort();
      return recent.length >= MIN_CHANGES && managers.length > 1 ? [{ field, managers, count: recent.length }] : [];
    });
  }
}

/** Returns the managers that made a version of an object from the one before: those whose entries gained fields or a later time. */
export function writers(before: KubeObject, after: KubeObject): string[] {
  const old = before.metadata.managedFields ?? [];
  const changed = (after.metadata.managedFields ?? []).filter((entry) => {
    const same = old.find(({ manager, operation, subresource, apiVersion }) => {
      return (
        manager === entry.manager &&
        operation === entry.operation &&
        subresource === entry.subresource &&
        apiVersion === entry.apiVersion
      );
    });
    return !same || (same.time ?? "") < (entry.time ?? "") || gains(same.fieldsV1, entry.fieldsV1);
  });
  return [...new Set(changed.map(({ manager }) => manager))];
}

/** Returns true if a field set has members that another lacks. A loss alone shows that another manager took a field over. */
function gains(before: unknown, after: unknown): boolean {
  if (isEqual(before as never, after as never)) return false;
  return JSON.stringify(after ?? {}).length >= JSON.stringify(before ?? {}).length;
}
