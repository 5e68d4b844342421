// An object that is kept current by a watch.

import { ApiError, type Client, collectionPath, messageOf, objectPath } from "../api/client.ts";
import type { Json, KubeObject, Resource } from "../api/types.ts";
import { differences } from "./diff.ts";
import { type Contest, Contests, writers } from "./contests.ts";
import { listKinds, pathKey } from "./fields.ts";

/** Pause before a watch that ended is started again, in milliseconds. */
const RETRY_MS = 2_000;

/** State of an object. */
export interface LiveState {
  object?: KubeObject;
  isDeleted: boolean;
  isLive: boolean;
  error?: string;
  /** Times of the last changes by the key of their path, in milliseconds. */
  changes: ReadonlyMap<string, number>;
  /** Fields that managers write in turn. */
  contests: readonly Contest[];
}

/** Source of the versions of one object. It stops when `stop` is called. */
export class LiveObject {
  #state: LiveState = { isDeleted: false, isLive: false, changes: new Map(), contests: [] };
  #contests = new Contests();
  #listeners = new Set<() => void>();
  #abort = new AbortController();

  constructor(
    private readonly client: Client,
    private readonly resource: Resource,
    private readonly namespace: string,
    private readonly name: string,
  ) {}

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly snapshot = (): LiveState => this.#state;

  start(): void {
    void this.#run();
  }

  stop(): void {
    this.#abort.abort();
  }

  async #run(): Promise<void> {
    const { signal } = this.#abort;
    while (!signal.aborted) {
      try {
        const path = objectPath(this.resource, this.namespace, this.name);
        this.#show(await this.client.json<KubeObject>(path, { signal }));
        if (this.resource.verbs.includes("watch")) await this.#follow();
        else return;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof ApiError && error.code === 404)
          this.#set({ isDeleted: true, isLive: false, ...(this.#state.object ? {} : { error: error.message }) });
        else if (!(error instanceof ApiError && error.isExpired))
          this.#set({ isLive: false, ...(this.#state.object ? {} : { error: messageOf(error) }) });
        if (error instanceof ApiError && (error.code === 401 || error.code === 403)) return;
      }
      this.#set({ isLive: false });
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }

  async #follow(): Promise<void> {
    const query = new URLSearchParams({
      watch: "true",
      allowWatchBookmarks: "true",
      fieldSelector: `metadata.name=${this.name}`,
      resourceVersion: this.#state.object?.metadata.resourceVersion ?? "",
    });
    const path = `${collectionPath(this.resource, this.namespace)}?${query}`;
    this.#set({ isLive: true });
    for await (const { type, object } of this.client.watch<KubeObject>(path, "application/json", this.#abort.signal)) {
      if (type === "DELETED") this.#set({ isDeleted: true });
      else if (type !== "BOOKMARK") this.#show(object);
    }
  }

  #show(object: KubeObject): void {
    const old = this.#state.object;
    const isNewer = old?.metadata.resourceVersion !== object.metadata.resourceVersion;
    if (!isNewer && !this.#state.isDeleted) return;
    const changes = new Map(this.#state.changes);
    if (old && old.metadata.uid === object.metadata.uid) {
      const kinds = listKinds([...(old.metadata.managedFields ?? []), ...(object.metadata.managedFields ?? [])]);
      const now = Date.now();
      const managers = writers(old, object);
      for (const { path, kind, text } of differences(old as unknown as Json, object as unknown as Json, kinds)) {
        if (kind !== "removed") changes.set(pathKey(path), now);
        this.#contests.add(text, managers, now);
      }
    }
    this.#set({ object, isDeleted: false, changes, contests: this.#contests.found(Date.now()) });
  }

  #set(changes: Partial<LiveState>): void {
    if (this.#abort.signal.aborted) return;
    this.#state = { ...this.#state, ...changes };
    for (const listener of this.#listeners) listener();
  }
}
