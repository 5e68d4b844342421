// State that all views share.

import { createContext, useContext, useEffect, useState } from "react";

import type { Client } from "../api/client.ts";
import type { Resource } from "../api/types.ts";
import type { User } from "../session.ts";

/** Connection to the server after the login. */
export interface Connection {
  client: Client;
  user: User;
  resources: readonly Resource[];
  /** Names of the namespaces. It is empty if the user may not list them. */
  namespaces: readonly string[];
}

export const ConnectionContext = createContext<Connection | undefined>(undefined);

/** Returns the connection. Views exist only after the login. */
export function useConnection(): Connection {
  const connection = useContext(ConnectionContext);
  if (!connection) throw new Error("There is no connection.");
  return connection;
}

/** Returns the time, and renders again in each interval. */
export function useNow(intervalMs: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs]);
  return now;
}

/** Returns the resource with a name; nothing if the server has none. */
export function findResource(resources: readonly Resource[], group: string, plural: string): Resource | undefined {
  return resources.find((resource) => resource.group === group && resource.plural === plural);
}

/** Segment of routes for the group without a name. */
export const CORE = "core";

/** Returns the segments of the route of a resource. */
export function resourceSegments(resource: Pick<Resource, "group" | "plural">): string[] {
  return [resource.group || CORE, resource.plural];
}

/** Returns the segments of the route of an object. Cluster-scoped objects have the namespace `-`. */
export function objectSegments(resource: Pick<Resource, "group" | "plural">, namespace: string, name: string): string[] {
  return ["object", ...resourceSegments(resource), namespace || "-", name];
}
