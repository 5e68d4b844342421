// Metadata of all objects of a namespace.

import { ApiError, type Client, collectionPath } from "../api/client.ts";
import type { KubeObject, Resource } from "../api/types.ts";

const METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/** Number of objects of a page. */
const PAGE_SIZE = 500;

/** Maximum number of objects that one scan reads. */
export const MAX_SCANNED = 20_000;

/** Number of kinds that are read at the same time. */
const CONCURRENCY = 4;

/** Object of a scan. */
export interface Scanned {
  resource: Resource;
  object: KubeObject;
}

/** Result of a scan. */
export interface Scan {
  objects: Scanned[];
  /** True if there are more objects than were read. */
  isCut: boolean;
  /** Kinds that the user may not list. */
  denied: Resource[];
}

/** Reads the metadata of all objects of a namespace; of cluster-scoped objects if it is empty. Reports the progress as a share. */
export async function scan(
  client: Client,
  resources: readonly Resource[],
  namespace: string,
  signal: AbortSignal,
  progress: (share: number) => void,
): Promise<Scan> {
  const isRead = ({ verbs, isNamespaced, group, plural }: Resource): boolean =>
    verbs.includes("list") &&
    isNamespaced === (namespace !== "") &&
    !(plural === "events" && group === "events.k8s.io") &&
    plural !== "componentstatuses";
  const queue = resources.filter(isRead);
  const total = queue.length;
  const result: Scan = { objects: [], isCut: false, denied: [] };
  const work = async (): Promise<void> => {
    for (let resource = queue.pop(); resource && !signal.aborted; resource = queue.pop()) {
      await scanResource(client, resource, namespace, signal, result);
      progress((total - queue.length) / total);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
  return result;
}

async function scanResource(
  client: Client,
  resource: Resource,
  namespace: string,
  signal: AbortSignal,
  result: Scan,
): Promise<void> {
  let next = "";
  do {
    if (result.objects.length >= MAX_SCANNED) {
      result.isCut = true;
      return;
    }
    const query = new URLSearchParams({ limit: String(PAGE_SIZE), pretty: "false", ...(next ? { continue: next } : {}) });
    try {
      interface List {
        metadata: { continue?: string };
        items: KubeObject[] | null;
      }
      const list = await client.json<List>(`${collectionPath(resource, namespace)}?${query}`, { accept: METADATA, signal });
      for (const object of list.items ?? []) result.objects.push({ resource, object });
      next = list.metadata.continue ?? "";
    } catch (error) {
      if (signal.aborted) return;
      // A list that changed too much while it was read is shown as far as it was read.
      if (error instanceof ApiError && error.isExpired) result.isCut = true;
      else if (error instanceof ApiError && (error.code === 403 || error.code === 401)) result.denied.push(resource);
      else if (!(error instanceof ApiError)) throw error;
      else result.isCut = true;
      return;
    }
  } while (next);
}
