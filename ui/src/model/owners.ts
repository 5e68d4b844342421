// Owners of the fields of an object, from its managedFields.

import type { Json, KubeObject, ManagedFieldsEntry } from "../api/types.ts";
import { type FieldSet, type Path, type Step, childOf, hasChildren, isMap, parseFieldSet, pathKey } from "./fields.ts";

/** Number of colours for managers. */
export const COLOURS = 10;

/** Entry of managedFields with its colour. */
export interface Owner {
  /** Index in managedFields. */
  index: number;
  entry: ManagedFieldsEntry;
  /** Number of the colour, below `COLOURS`. All entries of one manager have the same. */
  colour: number;
}

/** Reason for which a field has no owner in managedFields. */
export type Unowned =
  /** The server sets the field, and no manager ever owns it: the name, the UID and so on. */
  | "system"
  /** The server sets the field again if it is removed. */
  | "default"
  /** No manager owns the field. It may be a default. */
  | "none";

/** Ownership of one path. */
export interface Ownership {
  path: Path;
  owners: Owner[];
  /** True if the owners own the whole value above, which is replaced as one. */
  isAtomic: boolean;
  /** Owners of the whole value: of a scalar, or of a map or list that is replaced as one. */
  leafOwners: Owner[];
  /** Set for values without owners, except for maps and lists with content. */
  unowned?: Unowned;
}

/** Ownership of all paths of an object. */
export interface OwnershipMap {
  owners: Owner[];
  at(path: Path): Ownership | undefined;
  /** Ownership of all paths, those of containers before those of their content. */
  all(): Iterable<Ownership>;
  /** Paths of values that no manager owns and that may be defaults. */
  unowned: Path[];
}

const SYSTEM_METADATA = new Set([
  "name",
  "namespace",
  "uid",
  "resourceVersion",
  "generation",
  "creationTimestamp",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "selfLink",
  "generateName",
  "managedFields",
]);

/** Returns true if managedFields never contain the path. */
export function isSystemField(path: Path): boolean {
  const [first, second] = path;
  if (path.length === 1) return first === "apiVersion" || first === "kind";
  return first === "metadata" && path.length === 2 && SYSTEM_METADATA.has(String(second));
}

/** Returns the owners of an object, with the same colour for entries of the same manager. */
export function ownersOf(object: KubeObject): Owner[] {
  const entries = object.metadata.managedFields ?? [];
  const names = [...new Set(entries.map((entry) => entry.manager))].sort();
  const colours = new Map<string, number>();
  const used = new Set<number>();
  for (const name of names) {
    let colour = hash(name) % COLOURS;
    // Managers of one object get different colours as long as there are enough.
    while (used.has(colour) && used.size < COLOURS) colour = (colour + 1) % COLOURS;
    used.add(colour);
    colours.set(name, colour);
  }
  return entries.map((entry, index) => ({ index, entry, colour: colours.get(entry.manager) ?? 0 }));
}

/** Returns the owners of all fields. `defaults` contains the keys of paths that are known to be defaults. */
export function ownership(object: KubeObject, defaults: ReadonlySet<string> = new Set()): OwnershipMap {
  const owners = ownersOf(object);
  const known = new Map<string, Ownership>();
  const unowned: Path[] = [];

  const visit = (value: Json, path: Path, sets: { owner: Owner; set: FieldSet }[], inherited: Owner[]): void => {
    const exact = sets.filter(({ set }) => set.isMember).map(({ owner }) => owner);
    const isContainer = (isMap(value) && Object.keys(value).length > 0) || (Array.isArray(value) && value.length > 0);
    // A map or list below which a manager owns fields is not replaced as one.
    const leafOwners = sets.some(({ set }) => hasChildren(set)) ? [] : exact;
    const found = exact.length > 0 ? exact : inherited;
    const here: Ownership = { path, owners: found, isAtomic: exact.length === 0 && inherited.length > 0, leafOwners };
    if (found.length === 0 && !isContainer) {
      here.unowned = isSystemField(path) ? "system" : defaults.has(pathKey(path)) ? "default" : "none";
      if (here.unowned !== "system") unowned.push(path);
    }
    known.set(pathKey(path), here);
    if (!isContainer) return;
    // The content of a value that is replaced as one has the same owners.
    const below = leafOwners.length > 0 ? leafOwners : inherited;
    const steps: Step[] = Array.isArray(value) ? [...value.keys()] : Object.keys(value as object);
    for (const step of steps) {
      if (path.length === 1 && path[0] === "metadata" && step === "managedFields") continue;
      const child = (value as Record<Step, Json>)[step] as Json;
      const childSets = sets.flatMap(({ owner, set }) => {
        const node = childOf(set, value, step);
        return node ? [{ owner, set: node }] : [];
      });
      visit(child, [...path, step], childSets, below);
    }
  };
  const sets = owners.map((owner) => ({ owner, set: parseFieldSet(owner.entry.fieldsV1) }));
  // The root of an entry without fields owns nothing.
  for (const { set } of sets) set.isMember = false;
  visit(object as unknown as Json, [], sets, []);
  return { owners, unowned, at: (path) => known.get(pathKey(path)), all: () => known.values() };
}

/** Returns the name of an owner with its operation, and its subresource if it has one. */
export function ownerText(owner: Owner): string {
  const { manager, operation, subresource } = owner.entry;
  return `${manager} (${operation}${subresource ? `, ${subresource}` : ""})`;
}

function hash(text: string): number {
  let sum = 2166136261;
  for (const character of text) sum = Math.imul(sum ^ (character.codePointAt(0) ?? 0), 16777619) >>> 0;
  return sum;
}
