// Objects of a kind as a table of the server.

import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";

import { resourceName } from "../api/discovery.ts";
import type { Resource, TableColumn } from "../api/types.ts";
import { MAX_ROWS, type Row, TableSource, age } from "../model/table.ts";
import { CORE, findResource, objectSegments, resourceSegments, useConnection, useNow } from "../parts/context.ts";
import { Picker } from "../parts/Picker.tsx";
import { type Route, fragmentOf, go, replaceParameters } from "../route.ts";

const ROW_HEIGHT = 34;

/** Time for which a changed row is highlighted, in milliseconds. */
const HIGHLIGHT_MS = 5_000;

export function ObjectsView({ route }: { route: Route }) {
  const { client, resources, namespaces } = useConnection();
  const [group, plural = ""] = route.segments.slice(1);
  const resource = findResource(resources, group === CORE ? "" : (group ?? ""), plural);
  const namespace = route.parameters.get("namespace") ?? "";
  const labels = route.parameters.get("labels") ?? "";
  const listed = useMemo(() => resources.filter(({ verbs }) => verbs.includes("list")), [resources]);
  const kinds = useMemo(
    () =>
      listed.map((one) => ({
        value: resourceName(one),
        label: resourceName(one),
        detail: [one.kind, ...one.shortNames].join(" "),
      })),
    [listed],
  );
  const places = useMemo(
    () => [{ value: "", label: "all namespaces" }, ...namespaces.map((name) => ({ value: name, label: name }))],
    [namespaces],
  );
  const source = useMemo(
    () =>
      resource
        ? new TableSource(client, { resource, namespace: resource.isNamespaced ? namespace : "", labelSelector: labels })
        : undefined,
    [client, resource, namespace, labels],
  );
  return (
    <section className="objects">
      <h1 className="visually-hidden">Objects</h1>
      <div className="toolbar">
        <Picker
          label="Kind"
          value={resource ? resourceName(resource) : plural}
          choices={kinds}
          onChange={(name) => {
            const chosen = listed.find((one) => resourceName(one) === name);
            if (chosen) go(fragmentOf(["objects", ...resourceSegments(chosen)], { namespace }));
          }}
        />
        {resource?.isNamespaced && (
          <Picker
            label="Namespace"
            value={namespace}
            choices={places}
            isFree
            onChange={(name) => replaceParameters({ namespace: name })}
          />
        )}
        <LabelFilter key={labels} value={labels} />
        <SearchField value={route.parameters.get("search") ?? ""} />
      </div>
      {source && resource ? (
        <ObjectTable key={resourceName(resource)} source={source} search={route.parameters.get("search") ?? ""} />
      ) : (
        <p className="notice">The server has no resource {plural}.</p>
      )}
    </section>
  );
}

function LabelFilter({ value }: { value: string }) {
  const [text, setText] = useState(value);
  const commit = (): void => replaceParameters({ labels: text.trim() });
  return (
    <label className="field">
      <span>Labels</span>
      <input
        value={text}
        placeholder="app=web,tier!=test"
        spellCheck={false}
        onChange={(event) => setText(event.target.value)}
        onBlur={() => text.trim() !== value && commit()}
        onKeyDown={(event) => event.key === "Enter" && commit()}
      />
    </label>
  );
}

function SearchField({ value }: { value: string }) {
  return (
    <label className="field search">
      <span>Search</span>
      <input
        type="search"
        value={value}
        data-shortcut="/"
        spellCheck={false}
        onChange={(event) => replaceParameters({ search: event.target.value })}
      />
    </label>
  );
}

function ObjectTable({ source, search }: { source: TableSource; search: string }) {
  const state = useSyncExternalStore(source.subscribe, source.snapshot);
  const now = useNow(1_000);
  const { resource } = source.selection;
  const scroller = useRef<HTMLDivElement>(null);
  const [activeKey, setActiveKey] = useState("");

  useEffect(() => {
    source.start();
    setActiveKey("");
    return () => source.stop();
  }, [source]);

  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const isSearch = words.length > 0;
  useEffect(() => {
    if (isSearch) source.loadAll();
  }, [isSearch, source]);
  const rows = useMemo(
    () => (isSearch ? state.rows.filter((row) => words.every((word) => row.text.includes(word))) : state.rows),
    // The words follow from the search.
    [state.rows, search],
  );

  // Rows come and go above the active one, which stays active.
  const active = useMemo(
    () =>
      Math.max(
        0,
        rows.findIndex(({ key }) => key === activeKey),
      ),
    [rows, activeKey],
  );

  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 12,
  });
  const visible = virtualizer.getVirtualItems();
  const lastVisible = visible.at(-1)?.index ?? 0;
  useEffect(() => {
    if (!isSearch && lastVisible >= state.rows.length - 100) source.loadMore();
  }, [lastVisible, state.rows.length, isSearch, source]);

  const columns = state.columns.map((column, index) => ({ column, index })).filter(({ column }) => column.priority === 0);
  const hasNamespaces = resource.isNamespaced && source.selection.namespace === "";
  const template = [...(hasNamespaces ? ["minmax(7rem,1fr)"] : []), ...columns.map(({ column }) => widthOf(column))].join(" ");
  const minWidth = (hasNamespaces ? 7 : 0) + columns.reduce((sum, { column }) => sum + minRem(column), 0);
  const hrefOf = (row: Row): string => fragmentOf(objectSegments(resource, row.namespace, row.name));

  const select = (index: number): void => {
    const next = Math.max(0, Math.min(rows.length - 1, index));
    setActiveKey(rows[next]?.key ?? "");
    virtualizer.scrollToIndex(next);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / ROW_HEIGHT) - 2);
    const steps: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -Infinity,
      End: Infinity,
    };
    const step = steps[event.key];
    const row = rows[active];
    if (step !== undefined) {
      event.preventDefault();
      select(active + step);
    } else if (event.key === "Enter" && row) {
      event.preventDefault();
      go(hrefOf(row));
    }
  };

  return (
    <>
      <p className="summary" role="status" hidden={state.error !== undefined}>
        <span className={`live ${state.isLive ? "is-on" : ""}`}>
          {state.isLive ? "live" : state.isLoading ? "loading" : "not live"}
        </span>
        <span>{summaryOf(rows.length, state.rows.length, state.remaining, isSearch, state.isComplete)}</span>
        {state.isRestricted && <span className="hint">You may not list all objects; these are the ones that you may read.</span>}
        {!state.isComplete && !state.isLoading && !state.error && state.rows.length < MAX_ROWS && (
          <button type="button" onClick={() => source.loadAll()}>
            Load all
          </button>
        )}
      </p>
      {state.error && (
        <p className="notice is-error" role="alert">
          {state.error}{" "}
          <button type="button" onClick={source.reload}>
            Try again
          </button>
        </p>
      )}
      {state.columns.length > 0 && (
        <div
          ref={scroller}
          className="grid"
          role="grid"
          tabIndex={0}
          aria-label={`${resource.kind} objects`}
          aria-rowcount={state.isComplete ? rows.length + 1 : -1}
          aria-colcount={columns.length + (hasNamespaces ? 1 : 0)}
          aria-activedescendant={visible.some(({ index }) => index === active) ? `row-${active}` : undefined}
          onKeyDown={onKeyDown}
        >
          <div role="rowgroup" className="grid-head" style={{ minWidth: `${minWidth}rem` }}>
            <div role="row" className="grid-row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
              {hasNamespaces && <div role="columnheader">Namespace</div>}
              {columns.map(({ column }) => (
                <div role="columnheader" key={column.name} title={column.description}>
                  {column.name}
                </div>
              ))}
            </div>
          </div>
          <div role="rowgroup" className="grid-body" style={{ height: virtualizer.getTotalSize(), minWidth: `${minWidth}rem` }}>
            {visible.map(({ index, start }) => {
              const row = rows[index] as Row;
              const isChanged = row.changed > 0 && now - row.changed < HIGHLIGHT_MS;
              return (
                <div
                  role="row"
                  key={row.key}
                  id={`row-${index}`}
                  aria-rowindex={index + 2}
                  aria-selected={index === active}
                  className={`grid-row ${index === active ? "is-active" : ""} ${isChanged ? "is-changed" : ""}`}
                  style={{ transform: `translateY(${start}px)`, height: ROW_HEIGHT, gridTemplateColumns: template }}
                  onClick={() => {
                    setActiveKey(row.key);
                    go(hrefOf(row));
                  }}
                >
                  {hasNamespaces && <div role="gridcell">{row.namespace}</div>}
                  {columns.map(({ column, index: at }) => (
                    <div role="gridcell" key={column.name}>
                      {column.format === "name" ? (
                        <a href={hrefOf(row)} tabIndex={-1} onClick={(event) => event.stopPropagation()}>
                          {row.name}
                        </a>
                      ) : (
                        cellText(row, column, at, now)
                      )}
                    </div>
                  ))}
                </div>
              );
            })}
          </div>
          {rows.length === 0 && state.isComplete && <p className="empty">No objects.</p>}
        </div>
      )}
    </>
  );
}

function cellText(row: Row, column: TableColumn, at: number, now: number): string {
  if (column.name === "Age" && row.created) return age(row.created, now);
  const cell = row.cells[at];
  if (cell === null || cell === undefined) return "";
  if (typeof cell === "object") return JSON.stringify(cell);
  return column.type === "date" || column.format === "date-time" ? age(String(cell), now) || String(cell) : String(cell);
}

function minRem(column: TableColumn): number {
  return column.format === "name" ? 13 : column.name === "Age" ? 4 : 6;
}

function widthOf(column: TableColumn): string {
  const grows = column.format === "name" ? "2.5fr" : column.name === "Age" ? "0.6fr" : "1fr";
  return `minmax(${minRem(column)}rem, ${grows})`;
}

function summaryOf(shown: number, loaded: number, remaining: number, isSearch: boolean, isComplete: boolean): string {
  const number = (value: number): string => value.toLocaleString("en");
  const all = isComplete
    ? number(loaded)
    : remaining > 0
      ? `${number(loaded)} of ${number(loaded + remaining)}`
      : `${number(loaded)} and more`;
  if (isSearch) return `${number(shown)} found in ${all} objects`;
  return `${all} ${loaded === 1 && isComplete ? "object" : "objects"}`;
}

/** Returns the resource that is shown first. */
export function firstResource(resources: readonly Resource[]): string {
  const usual = findResource(resources, "", "pods") ?? resources.find(({ verbs }) => verbs.includes("list"));
  return usual ? fragmentOf(["objects", ...resourceSegments(usual)]) : fragmentOf(["objects", CORE, "pods"]);
}
