// What an apply would do: the result of a dry run, compared with the existing object.

import { type Document, parseAllDocuments } from "yaml";

import { ApiError, type Client, messageOf, objectPath } from "../api/client.ts";
import type { ConflictDetail, Json, KubeObject, Resource } from "../api/types.ts";
import { type Difference, differences } from "./diff.ts";
import { type ListKinds, type Path, isMap, listKinds, optionText, pathText, valueAt } from "./fields.ts";
import { type Owner, ownersOf, ownership } from "./owners.ts";
import { ownedFields } from "./pick.ts";

/** Maximum number of objects of one text. */
const MAX_OBJECTS = 100;

/** Maximum number of fields that one request can force. */
const MAX_FORCED_FIELDS = 64;

/** Field that another manager owns, with a different value. */
export interface Conflict {
  field: string;
  manager: string;
  operation: string;
  stored: Json | undefined;
  requested: Json | undefined;
  /** Path in the manifest; none if the manifest lacks the field. */
  path: Path | undefined;
  /** Text of the path for `forceFields`. */
  option: string;
}

/** Field that the manager owned and would own no longer. */
export interface GivenUp {
  field: string;
  /** Managers that keep the field. It is removed if there are none and `isRemoved` is set. */
  keptBy: Owner[];
  isRemoved: boolean;
}

/** Plan of one object. */
export interface Plan {
  title: string;
  document: Document;
  resource?: Resource;
  path?: string;
  /** Place of the object in the page. */
  namespace: string;
  name: string;
  existing?: KubeObject;
  conflicts: Conflict[];
  differences: Difference[];
  givenUp: GivenUp[];
  /** True if the server knows `forceFields`. */
  knowsForceFields: boolean;
  error?: string;
}

/** Decision about a conflict. */
export type Decision = "force" | "share" | "omit";

/** Returns the documents of a text. Throws if the text is not YAML. */
export function readManifests(text: string): Document[] {
  const documents = parseAllDocuments(text, { logLevel: "silent" }) as Document[];
  const filled = documents.filter((document) => document.contents !== null);
  const problem = filled.flatMap(({ errors }) => errors)[0];
  if (problem) throw new Error(problem.message);
  if (filled.length === 0) throw new Error("The text contains no manifest.");
  if (filled.length > MAX_OBJECTS) throw new Error(`The text has ${filled.length} manifests; at most ${MAX_OBJECTS} are possible.`);
  return filled;
}

/** Context of a plan. */
export interface PlanContext {
  client: Client;
  resources: readonly Resource[];
  manager: string;
  /** Namespace of manifests that name none. */
  namespace: string;
}

/** Returns the plan of one manifest. Errors are part of it. */
export async function makePlan(context: PlanContext, document: Document): Promise<Plan> {
  const plan: Plan = {
    title: "",
    document,
    namespace: "",
    name: "",
    conflicts: [],
    differences: [],
    givenUp: [],
    knowsForceFields: false,
  };
  try {
    await fillPlan(context, plan, manifestOf(document));
  } catch (error) {
    plan.error = messageOf(error);
  }
  return plan;
}

function manifestOf(document: Document): Json {
  return document.toJS({ maxAliasCount: 100 }) as Json;
}

async function fillPlan({ client, resources, manager, namespace }: PlanContext, plan: Plan, manifest: Json): Promise<void> {
  const text = (value: Json | undefined): string => (typeof value === "string" ? value : "");
  const metadata = isMap(manifest) ? manifest["metadata"] : undefined;
  const [apiVersion, kind] = isMap(manifest) ? [text(manifest["apiVersion"]), text(manifest["kind"])] : ["", ""];
  plan.name = isMap(metadata) ? text(metadata["name"]) : "";
  plan.title = `${kind || "Object"} ${plan.name}`;
  if (!apiVersion || !kind || !plan.name) throw new Error("A manifest needs apiVersion, kind and metadata.name.");
  const [group, version] = apiVersion.includes("/") ? (apiVersion.split("/", 2) as [string, string]) : ["", apiVersion];
  const known = resources.find((resource) => resource.group === group && resource.kind === kind && !resource.plural.includes("/"));
  if (!known) throw new Error(`The server has no kind ${kind} in ${apiVersion}.`);
  plan.resource = { ...known, version };
  plan.namespace = known.isNamespaced ? (isMap(metadata) && text(metadata["namespace"])) || namespace || "default" : "";
  plan.title += plan.namespace ? ` in ${plan.namespace}` : "";
  plan.path = objectPath(plan.resource, plan.namespace, plan.name);

  const existing = await client.json<KubeObject>(plan.path).catch((error: unknown) => {
    if (error instanceof ApiError && error.code === 404) return undefined;
    throw error;
  });
  if (existing) plan.existing = existing;
  const query = { fieldManager: manager, dryRun: "All", conflictDetails: "true" };
  let rejection: ApiError | undefined;
  const result = await client.apply(plan.path, manifest, query).catch((error: unknown) => {
    if (!(error instanceof ApiError) || !isFieldConflict(error)) throw error;
    rejection = error;
    return client.apply(plan.path as string, manifest, { ...query, force: "true" });
  });
  const kinds = listKinds([...(existing?.metadata.managedFields ?? []), ...(result.metadata.managedFields ?? [])]);
  plan.differences = differences((existing ?? {}) as Json, result as unknown as Json, kinds);
  plan.givenUp = existing ? givenUp(existing, result, manager) : [];
  if (rejection) {
    plan.knowsForceFields = rejection.status.details?.conflicts !== undefined;
    plan.conflicts = conflictsOf(rejection, { manifest, existing: (existing ?? {}) as Json, result, kinds });
  }
}

function isFieldConflict(error: ApiError): boolean {
  const causes = error.status.details?.causes ?? [];
  return error.code === 409 && causes.some(({ reason }) => reason === "FieldManagerConflict");
}

interface ConflictContext {
  manifest: Json;
  existing: Json;
  result: KubeObject;
  kinds: ListKinds;
}

function conflictsOf(rejection: ApiError, { manifest, existing, kinds }: ConflictContext): Conflict[] {
  const details = rejection.status.details?.conflicts ?? (rejection.status.details?.causes ?? []).map(detailOf);
  const [inManifest, inExisting] = [pathsByText(manifest, kinds), pathsByText(existing, kinds)];
  return details.map((detail) => {
    const path = inManifest.get(detail.field);
    const storedAt = inExisting.get(detail.field);
    const shown = path ? { path, root: manifest } : storedAt && { path: storedAt, root: existing };
    return {
      field: detail.field,
      manager: detail.manager,
      operation: detail.operation ?? "",
      stored: storedAt ? valueAt(existing, storedAt) : detail.stored,
      requested: path ? valueAt(manifest, path) : detail.requested,
      path,
      option: shown ? optionText(shown.path, shown.root, kinds) : detail.field,
    };
  });
}

/** Returns the content of a cause, in which other servers name the field and its manager. */
function detailOf({ field = "", message = "" }: { field?: string; message?: string }): ConflictDetail {
  const match = /^conflict with "((?:[^"\\]|\\.)*)"/.exec(message);
  return { field, manager: match ? (JSON.parse(`"${match[1]}"`) as string) : message };
}

function pathsByText(root: Json, kinds: ListKinds): Map<string, Path> {
  const found = new Map<string, Path>();
  const visit = (value: Json, path: Path): void => {
    if (path.length > 0) found.set(pathText(path, root, kinds), path);
    if (Array.isArray(value)) value.forEach((item, index) => visit(item, [...path, index]));
    else if (isMap(value)) for (const [name, child] of Object.entries(value)) visit(child, [...path, name]);
  };
  visit(root, []);
  return found;
}

/** Returns the fields that the manager owns before and not after an apply. */
function givenUp(existing: KubeObject, result: KubeObject, manager: string): GivenUp[] {
  const owns = (owner: Owner): boolean =>
    owner.entry.manager === manager && owner.entry.operation === "Apply" && !owner.entry.subresource;
  if (!ownersOf(existing).some(owns)) return [];
  const after = ownedFields(result, owns);
  const kinds = listKinds([...(existing.metadata.managedFields ?? []), ...(result.metadata.managedFields ?? [])]);
  const places = pathsByText(result as unknown as Json, kinds);
  const owners = ownership(result);
  const fields = [...ownedFields(existing, owns).keys()].filter((field) => !after.has(field));
  return fields.map((field) => {
    const place = places.get(field);
    return { field, isRemoved: place === undefined, keptBy: place ? (owners.at(place)?.owners ?? []) : [] };
  });
}

/** Returns the document after the decisions to share or omit fields. */
export function edited(plan: Plan, decisions: ReadonlyMap<string, Decision>): Document {
  const document = plan.document.clone() as Document;
  // Later items of lists are removed first, so that indexes stay valid.
  for (const { field, path, stored } of plan.conflicts.toReversed()) {
    const decision = decisions.get(field);
    if (!path || !decision || decision === "force") continue;
    if (decision === "omit" || stored === undefined) document.deleteIn(path);
    else document.setIn(path, document.createNode(stored));
  }
  return document;
}

/** Applies a plan with the decisions about its conflicts. Returns the stored object. */
export async function applyPlan(
  { client, manager }: PlanContext,
  plan: Plan,
  decisions: ReadonlyMap<string, Decision>,
): Promise<KubeObject> {
  const manifest = manifestOf(edited(plan, decisions));
  const forced = plan.conflicts.filter(({ field }) => decisions.get(field) === "force");
  const query: Record<string, string> = { fieldManager: manager };
  if (forced.length > 0 && plan.knowsForceFields && forced.length <= MAX_FORCED_FIELDS) {
    query["forceFields"] = forced.map(({ option }) => option).join(",");
  } else if (forced.length > 0) {
    // The version makes the apply fail if there may be other conflicts than those that were decided.
    query["force"] = "true";
    if (isMap(manifest) && isMap(manifest["metadata"]) && plan.existing?.metadata.resourceVersion) {
      manifest["metadata"]["resourceVersion"] = plan.existing.metadata.resourceVersion;
    }
  }
  return client.apply(plan.path as string, manifest, query);
}
