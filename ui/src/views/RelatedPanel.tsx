// Owners and dependents of an object, by owner references.

import { useEffect, useState } from "react";

import { ApiError, type Client, messageOf, objectPath } from "../api/client.ts";
import type { KubeObject, OwnerReference, Resource } from "../api/types.ts";
import { type Scanned, scan } from "../model/scan.ts";
import { objectSegments, useConnection } from "../parts/context.ts";
import { fragmentOf } from "../route.ts";
import type { PanelProps } from "./ObjectView.tsx";

/** Maximum number of owners above an object. */
const MAX_LEVELS = 20;

interface RelatedNode {
  key: string;
  title: string;
  href?: string;
  note?: string;
  isCurrent?: boolean;
  children: RelatedNode[];
}

export function RelatedPanel({ resource, object, state }: PanelProps) {
  const { client, resources } = useConnection();
  const [roots, setRoots] = useState<RelatedNode[]>();
  const [progress, setProgress] = useState(0);
  const [error, setError] = useState("");
  const { uid } = object.metadata;
  useEffect(() => {
    const abort = new AbortController();
    const load = async (): Promise<void> => {
      const namespace = object.metadata.namespace ?? "";
      const found = await scan(client, resources, namespace, abort.signal, setProgress);
      const current: RelatedNode = {
        ...nodeOf({ resource, object }),
        isCurrent: true,
        children: dependents(found.objects, uid ?? "", new Set()),
      };
      const tops = await ancestors(client, resources, object, current, 0);
      if (!abort.signal.aborted) setRoots(tops);
    };
    load().catch((failure: unknown) => !abort.signal.aborted && setError(messageOf(failure)));
    return () => abort.abort();
    // The owners of an object seldom change while it is shown.
  }, [client, resources, uid, state.isDeleted]);
  if (error) {
    return (
      <p className="notice is-error" role="alert">
        {error}
      </p>
    );
  }
  if (!roots) return <p className="notice">Reading: {Math.round(progress * 100)} %</p>;
  return (
    <div className="related">
      <p className="hint">An arrow leads from an owner to the objects that are deleted with it.</p>
      <Tree nodes={roots} />
    </div>
  );
}

function Tree({ nodes }: { nodes: RelatedNode[] }) {
  return (
    <ul className="tree">
      {nodes.map((node) => (
        <li key={node.key}>
          <span className={`node ${node.isCurrent ? "is-current" : ""}`}>
            {node.href && !node.isCurrent ? <a href={node.href}>{node.title}</a> : <strong>{node.title}</strong>}
            {node.note && <small> {node.note}</small>}
          </span>
          {node.children.length > 0 && <Tree nodes={node.children} />}
        </li>
      ))}
    </ul>
  );
}

function nodeOf({ resource, object }: Scanned): RelatedNode {
  const { name, namespace = "", uid = "" } = object.metadata;
  return {
    key: uid || name,
    title: `${resource.kind} ${name}`,
    href: fragmentOf([...objectSegments(resource, namespace, name)]),
    children: [],
  };
}

/** Returns the objects that reference the owner, each with its own dependents. */
function dependents(objects: Scanned[], owner: string, above: ReadonlySet<string>): RelatedNode[] {
  if (owner === "" || above.has(owner)) return [];
  const path = new Set([...above, owner]);
  const owned = objects.filter(({ object }) => object.metadata.ownerReferences?.some(({ uid }) => uid === owner));
  return owned.map((scanned) => ({ ...nodeOf(scanned), children: dependents(objects, scanned.object.metadata.uid ?? "", path) }));
}

/** Returns the trees from the topmost owners down to an object. */
async function ancestors(
  client: Client,
  resources: readonly Resource[],
  object: KubeObject,
  node: RelatedNode,
  level: number,
): Promise<RelatedNode[]> {
  const references = object.metadata.ownerReferences ?? [];
  if (references.length === 0 || level >= MAX_LEVELS) return [node];
  const tops = references.map(async (reference): Promise<RelatedNode[]> => {
    const found = await ownerOf(client, resources, object.metadata.namespace ?? "", reference);
    const title = `${reference.kind} ${reference.name}`;
    if (typeof found === "string") return [{ key: reference.uid, title, note: found, children: [node] }];
    return ancestors(client, resources, found.object, { ...nodeOf(found), children: [node] }, level + 1);
  });
  return (await Promise.all(tops)).flat();
}

/** Returns the owner that a reference names, or the reason for which it cannot be shown. */
async function ownerOf(
  client: Client,
  resources: readonly Resource[],
  namespace: string,
  reference: OwnerReference,
): Promise<Scanned | string> {
  const group = reference.apiVersion.includes("/") ? (reference.apiVersion.split("/")[0] as string) : "";
  const resource = resources.find((one) => one.group === group && one.kind === reference.kind && one.verbs.includes("get"));
  if (!resource) return "(the server has no such kind)";
  try {
    const object = await client.json<KubeObject>(objectPath(resource, namespace, reference.name));
    return object.metadata.uid === reference.uid ? { resource, object } : "(another object has the name now)";
  } catch (error) {
    if (error instanceof ApiError) return error.code === 404 ? "(does not exist)" : `(${error.message})`;
    throw error;
  }
}
