// A table of objects: pages of a list, kept current by a watch.

import { ApiError, type Client, collectionPath, messageOf } from "../api/client.ts";
import type { Json, Resource, Table, TableColumn, TableRow } from "../api/types.ts";

/** Tables without managedFields, which are larger than the rest; with them from servers that cannot leave them out. */
const AS_TABLE = [
  "application/json;as=Table;v=v1;g=meta.k8s.io;drop=metadata.managedFields",
  "application/json;as=Table;v=v1;g=meta.k8s.io",
].join(", ");

/** Numbers of objects of a page: while a person scrolls, and while everything is loaded. */
const PAGE_SIZE = 500;
const BULK_PAGE_SIZE = 2_000;

/** Maximum number of rows that the page loads. */
export const MAX_ROWS = 250_000;

/** Pause before a watch that ended is started again, in milliseconds. It doubles up to the maximum. */
const MIN_RETRY_MS = 500;
const MAX_RETRY_MS = 15_000;

/** Row of a table. */
export interface Row {
  key: string;
  namespace: string;
  name: string;
  created: string;
  cells: Json[];
  /** Text for the search, in lower case. */
  text: string;
  /** Time of the last change that the watch reported, in milliseconds; 0 for none. */
  changed: number;
}

/** State of a table. A new one is made for each change. */
export interface TableState {
  columns: TableColumn[];
  rows: readonly Row[];
  /** Number of objects on the server that are not loaded. It is an estimate. */
  remaining: number;
  isComplete: boolean;
  isLoading: boolean;
  /** True if the watch is connected. */
  isLive: boolean;
  /** True if the user may not list all objects, and the table has those that the user may read. */
  isRestricted: boolean;
  error?: string;
}

/** Selection of the objects of a table. */
export interface Selection {
  resource: Resource;
  /** Namespace; empty for all. */
  namespace: string;
  labelSelector: string;
}

const INITIAL: TableState = {
  columns: [],
  rows: [],
  remaining: 0,
  isComplete: false,
  isLoading: true,
  isLive: false,
  isRestricted: false,
};

/** Source of the rows of a table. It stops when `stop` is called. */
export class TableSource {
  #state = INITIAL;
  #rows: Row[] = [];
  #keys = new Map<string, Row>();
  /** Keys that the watch reported. Pages of the list show an older state of these objects. */
  #touched = new Set<string>();
  #continue = "";
  #isLoading = false;
  #loadsAll = false;
  #generation = 0;
  /** True if requests ask only for what the user may read. Other servers than Holdfast ignore the option. */
  #isRestricted = false;
  #listeners = new Set<() => void>();
  #isScheduled = false;
  #abort = new AbortController();

  constructor(
    private readonly client: Client,
    readonly selection: Selection,
  ) {}

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly snapshot = (): TableState => this.#state;

  /** Loads the first page and starts the watch. */
  start(): void {
    void this.#reload();
  }

  /** Ends all requests. */
  stop(): void {
    this.#abort.abort();
  }

  /** Loads the next page, unless one is being loaded. */
  loadMore(): void {
    if (this.#isLoading || this.#state.isComplete || this.#state.error || this.#rows.length >= MAX_ROWS) return;
    const generation = this.#generation;
    void this.#loadPage(generation).then(() => {
      if (this.#loadsAll && generation === this.#generation) this.loadMore();
    });
  }

  /** Loads all pages, for searches. */
  loadAll(): void {
    this.#loadsAll = true;
    this.loadMore();
  }

  /** Loads the table again after an error. */
  async #reload(): Promise<void> {
    const generation = ++this.#generation;
    this.#rows = [];
    this.#keys.clear();
    this.#touched.clear();
    this.#continue = "";
    this.#isRestricted = false;
    this.#set({ ...INITIAL, columns: this.#state.columns });
    const version = await this.#loadPage(generation);
    if (version !== undefined) void this.#follow(version, generation);
    if (this.#loadsAll) this.loadMore();
  }

  readonly reload = (): void => void this.#reload();

  get #isStopped(): boolean {
    return this.#abort.signal.aborted;
  }

  /** Loads one page. Returns the resource version of the list, or none after an error. */
  async #loadPage(generation: number): Promise<string | undefined> {
    const query = this.#query({ limit: String(this.#loadsAll ? BULK_PAGE_SIZE : PAGE_SIZE), includeObject: "Metadata" });
    if (this.#continue) query.set("continue", this.#continue);
    const isFirst = this.#continue === "";
    this.#isLoading = true;
    this.#set({ ...this.#state, isLoading: true });
    try {
      const path = `${collectionPath(this.selection.resource, this.selection.namespace)}?${query}`;
      const table = await this.client.json<Table>(path, { accept: AS_TABLE, signal: this.#abort.signal });
      if (generation !== this.#generation || this.#isStopped) return undefined;
      this.#isLoading = false;
      const rows = (table.rows ?? []).map((row) => rowOf(row, 0)).filter((row) => !this.#touched.has(row.key));
      // Rows that the watch has added may belong after those of this page.
      const isSorted = this.#rows.length === 0 || this.#touched.size === 0;
      for (const row of rows) this.#keys.set(row.key, row);
      this.#rows = this.#rows.concat(rows);
      if (!isSorted) this.#rows.sort(byPlace);
      this.#continue = table.metadata.continue ?? "";
      this.#set({
        ...this.#state,
        columns: table.columnDefinitions?.length ? table.columnDefinitions : this.#state.columns,
        rows: this.#rows,
        remaining: table.metadata.remainingItemCount ?? 0,
        isComplete: this.#continue === "",
        isLoading: false,
        isRestricted: this.#isRestricted,
      });
      return isFirst ? table.metadata.resourceVersion : undefined;
    } catch (error) {
      if (this.#isStopped || generation !== this.#generation) return undefined;
      this.#isLoading = false;
      if (!isFirst && error instanceof ApiError && error.isExpired) {
        void this.#reload();
        return undefined;
      }
      if (isFirst && !this.#isRestricted && error instanceof ApiError && error.code === 403) {
        this.#isRestricted = true;
        return this.#loadPage(generation);
      }
      this.#set({ ...this.#state, isLoading: false, error: messageOf(error) });
      return undefined;
    }
  }

  /** Follows the changes after a resource version until the table is loaded again. */
  async #follow(version: string, generation: number): Promise<void> {
    const { resource, namespace } = this.selection;
    if (!resource.verbs.includes("watch")) return;
    let last = version;
    let pause = MIN_RETRY_MS;
    const isCurrent = (): boolean => generation === this.#generation && !this.#isStopped;
    while (isCurrent()) {
      const query = this.#query({ watch: "true", allowWatchBookmarks: "true", includeObject: "Metadata", resourceVersion: last });
      try {
        const path = `${collectionPath(resource, namespace)}?${query}`;
        this.#set({ ...this.#state, isLive: true });
        for await (const { type, object } of this.client.watch<Table>(path, AS_TABLE, this.#abort.signal)) {
          if (!isCurrent()) return;
          pause = MIN_RETRY_MS;
          for (const row of object.rows ?? []) {
            last = row.object?.metadata?.resourceVersion ?? last;
            if (type !== "BOOKMARK") this.#change(type === "DELETED", row);
          }
        }
      } catch (error) {
        if (!isCurrent()) return;
        if (error instanceof ApiError && error.isExpired) {
          void this.#reload();
          return;
        }
        if (error instanceof ApiError && (error.code === 401 || error.code === 403)) {
          this.#set({ ...this.#state, isLive: false });
          return;
        }
      }
      if (!isCurrent()) return;
      this.#set({ ...this.#state, isLive: false });
      await sleep(pause);
      pause = Math.min(pause * 2, MAX_RETRY_MS);
    }
  }

  /** Applies one event of the watch. */
  #change(isDeletion: boolean, changed: TableRow): void {
    const row = rowOf(changed, Date.now());
    this.#touched.add(row.key);
    const existing = this.#keys.get(row.key);
    const at = existing ? position(this.#rows, existing) : position(this.#rows, row);
    if (isDeletion) {
      this.#keys.delete(row.key);
      if (existing) this.#rows.splice(at, 1);
    } else {
      this.#keys.set(row.key, row);
      this.#rows.splice(at, existing ? 1 : 0, row);
    }
    this.#schedule();
  }

  /** Publishes the rows once for all changes of a moment. */
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setTimeout(() => {
      this.#isScheduled = false;
      this.#rows = this.#rows.slice();
      this.#set({ ...this.#state, rows: this.#rows });
    }, 100);
  }

  #query(parameters: Record<string, string>): URLSearchParams {
    const query = new URLSearchParams({ ...parameters, pretty: "false" });
    if (this.#isRestricted) query.set("authorizedOnly", "true");
    if (this.selection.labelSelector) query.set("labelSelector", this.selection.labelSelector);
    return query;
  }

  #set(state: TableState): void {
    if (this.#isStopped) return;
    this.#state = state;
    for (const listener of this.#listeners) listener();
  }
}

function rowOf({ cells, object }: TableRow, changed: number): Row {
  const { name, namespace = "", creationTimestamp = "" } = object.metadata;
  const text = `${namespace} ${name} ${cells.join(" ")}`.toLowerCase();
  return { key: `${namespace}/${name}`, namespace, name, created: creationTimestamp, cells, text, changed };
}

/** Orders rows as the server does: by the bytes of namespace and name. */
function byPlace(left: Row, right: Row): number {
  if (left.namespace !== right.namespace) return left.namespace < right.namespace ? -1 : 1;
  if (left.name !== right.name) return left.name < right.name ? -1 : 1;
  return 0;
}

/** Returns the index of a row, or the index at which it belongs. */
function position(rows: readonly Row[], row: Row): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (byPlace(rows[middle] as Row, row) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

const sleep = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Returns an age as kubectl shows it. */
export function age(time: string | undefined, now: number): string {
  const then = time ? Date.parse(time) : Number.NaN;
  if (Number.isNaN(then)) return "";
  const seconds = Math.max(0, Math.round((now - then) / 1000));
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours}h`;
  return `${Math.floor(hours / 24)}d`;
}
