// Requests to the API server.

import type { Json, KubeObject, Resource, Status, WatchEvent } from "./types.ts";

/** Credentials of the requests. They are kept in memory, except for the session of `holdfast ui`. */
export type Credentials =
  | { kind: "none" }
  | { kind: "token"; token: string }
  /** Session with the local process of `holdfast ui`, which has the credentials of the kubeconfig. */
  | { kind: "session"; secret: string };

/** Header with the session of `holdfast ui`. */
const SESSION_HEADER = "X-Holdfast-Session";

/** Maximum number of characters of one watch event. */
const MAX_EVENT_LENGTH = 64 << 20;

/** Answer with the status of an error. */
export class ApiError extends Error {
  constructor(
    readonly code: number,
    readonly status: Status,
  ) {
    super(status.message || `The server answered ${code}.`);
  }

  /** True if the resource version or the continue token of a list is too old. */
  get isExpired(): boolean {
    return this.code === 410 || this.status.reason === "Expired" || this.status.reason === "Gone";
  }
}

/** Options of a request. */
export interface RequestOptions {
  method?: string;
  accept?: string;
  contentType?: string;
  body?: string;
  signal?: AbortSignal;
}

/** Client of one server with the credentials of one user. */
export class Client {
  constructor(
    /** Prefix of all paths of the API. It is not empty behind a proxy that adds a prefix. */
    readonly root: string,
    readonly credentials: Credentials,
  ) {}

  /** Sends a request and returns its successful response. Throws an `ApiError` otherwise. */
  async send(path: string, options: RequestOptions = {}): Promise<Response> {
    const headers: Record<string, string> = { Accept: options.accept ?? "application/json" };
    if (options.contentType) headers["Content-Type"] = options.contentType;
    if (this.credentials.kind === "token") headers["Authorization"] = `Bearer ${this.credentials.token}`;
    if (this.credentials.kind === "session") headers[SESSION_HEADER] = this.credentials.secret;
    const init: RequestInit = { method: options.method ?? "GET", headers, credentials: "omit", redirect: "error" };
    // Without a token, the certificate of the browser authenticates the user.
    if (this.credentials.kind === "none") init.credentials = "same-origin";
    if (options.body !== undefined) init.body = options.body;
    if (options.signal) init.signal = options.signal;
    const response = await fetch(this.root + path, init).catch((error: unknown) => {
      // The browser gives no reason.
      throw error instanceof TypeError ? new Error("The server cannot be reached.") : error;
    });
    if (!response.ok) throw await errorOf(response);
    return response;
  }

  /** Returns the JSON document of a response. */
  async json<T>(path: string, options: RequestOptions = {}): Promise<T> {
    const response = await this.send(path, options);
    return (await response.json()) as T;
  }

  /** Posts an object, for example a review, and returns the result. */
  post<T>(path: string, object: unknown): Promise<T> {
    return this.json<T>(path, { method: "POST", contentType: "application/json", body: JSON.stringify(object) });
  }

  /**
   * Applies a configuration (Server-Side Apply).
   * https://kubernetes.io/docs/reference/using-api/server-side-apply/
   */
  apply(path: string, manifest: Json, query: Record<string, string>): Promise<KubeObject> {
    return this.json<KubeObject>(`${path}?${new URLSearchParams(query)}`, {
      method: "PATCH",
      // JSON is YAML.
      contentType: "application/apply-patch+yaml",
      body: JSON.stringify(manifest),
    });
  }

  /** Yields the events of a watch until the server ends it. */
  async *watch<T>(path: string, accept: string, signal: AbortSignal): AsyncGenerator<WatchEvent<T>> {
    const response = await this.send(path, { accept, signal });
    if (!response.body) return;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += value;
      const lines = rest.split("\n");
      rest = lines.pop() ?? "";
      if (rest.length > MAX_EVENT_LENGTH) throw new Error("A watch event is too long.");
      for (const line of lines) {
        if (line === "") continue;
        const event = JSON.parse(line) as WatchEvent<T>;
        if (event.type === "ERROR") {
          const status = event.object as Status;
          throw new ApiError(status.code ?? 500, status);
        }
        yield event;
      }
    }
  }
}

async function errorOf(response: Response): Promise<ApiError> {
  const text = await response.text();
  try {
    const status = JSON.parse(text) as Status;
    if (status.kind === "Status") return new ApiError(response.status, status);
  } catch {
    // The body is plain text.
  }
  const message = text.trim().slice(0, 1000) || `The server answered ${response.status}.`;
  return new ApiError(response.status, { kind: "Status", message });
}

/** Returns the path of the collection of a resource. An empty namespace selects all namespaces. */
export function collectionPath(resource: Resource, namespace: string): string {
  const root = resource.group === "" ? `/api/${resource.version}` : `/apis/${resource.group}/${resource.version}`;
  const within = resource.isNamespaced && namespace !== "" ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `${root}${within}/${resource.plural}`;
}

/** Returns the path of an object. */
export function objectPath(resource: Resource, namespace: string, name: string): string {
  return `${collectionPath(resource, namespace)}/${encodeURIComponent(name)}`;
}

/** Returns the text of an error for the user. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
