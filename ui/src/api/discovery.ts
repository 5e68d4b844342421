// Resources of the server, from aggregated discovery.

import type { Client } from "./client.ts";
import type { Resource } from "./types.ts";

const AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

interface DiscoveryList {
  items: {
    metadata: { name?: string };
    versions?: {
      version: string;
      freshness?: string;
      resources?: {
        resource: string;
        responseKind?: { group: string; version: string; kind: string };
        scope: string;
        verbs: string[];
        shortNames?: string[];
      }[];
    }[];
  }[];
}

/** Returns the resources of the server, each in its preferred version, in alphabetical order. */
export async function discover(client: Client): Promise<Resource[]> {
  const roots = ["/api", "/apis"].map((path) => client.json<DiscoveryList>(path, { accept: AGGREGATED }));
  const resources: Resource[] = [];
  for (const list of await Promise.all(roots)) {
    for (const group of list.items ?? []) {
      const known = new Set<string>();
      for (const { version, resources: served } of group.versions ?? []) {
        for (const { resource, responseKind, scope, verbs, shortNames } of served ?? []) {
          // Versions come in the order of preference.
          if (known.has(resource)) continue;
          known.add(resource);
          resources.push({
            group: group.metadata.name ?? "",
            version,
            plural: resource,
            kind: responseKind?.kind ?? resource,
            isNamespaced: scope === "Namespaced",
            verbs,
            shortNames: shortNames ?? [],
          });
        }
      }
    }
  }
  return resources.sort((left, right) => left.plural.localeCompare(right.plural) || left.group.localeCompare(right.group));
}

/** Returns the name of a resource with its group: `deployments.apps`. */
export function resourceName(resource: Pick<Resource, "group" | "plural">): string {
  return resource.group === "" ? resource.plural : `${resource.plural}.${resource.group}`;
}
