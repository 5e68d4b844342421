// The place in the page, which is the fragment of its URL.

import { useSyncExternalStore } from "react";

/** Place in the page: segments, and parameters after the question mark. */
export interface Route {
  segments: string[];
  parameters: URLSearchParams;
}

/** Returns the route of a fragment such as `#/objects/apps/v1/deployments?namespace=shop`. */
export function parseRoute(fragment: string): Route {
  const [path = "", query = ""] = fragment.replace(/^#\/?/, "").split("?", 2);
  return {
    segments: path
      .split("/")
      .filter((segment) => segment !== "")
      .map(decode),
    parameters: new URLSearchParams(query),
  };
}

/** Returns the fragment of a route. Empty parameters are left out. */
export function fragmentOf(segments: string[], parameters: Record<string, string> = {}): string {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== ""));
  const path = segments.map(encodeURIComponent).join("/");
  return `#/${path}${query.size > 0 ? `?${query}` : ""}`;
}

/** Returns the current route, and renders again when it changes. */
export function useRoute(): Route {
  const fragment = useSyncExternalStore(
    (listener) => {
      addEventListener("hashchange", listener);
      return () => removeEventListener("hashchange", listener);
    },
    () => location.hash,
  );
  return parseRoute(fragment);
}

/** Opens another place. */
export function go(fragment: string): void {
  location.hash = fragment;
}

/** Changes the parameters of the current place without an entry in the history. */
export function replaceParameters(changes: Record<string, string>): void {
  const { segments, parameters } = parseRoute(location.hash);
  for (const [name, value] of Object.entries(changes)) parameters.set(name, value);
  history.replaceState(null, "", fragmentOf(segments, Object.fromEntries(parameters)));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
