// The YAML of an object with the owner of each field in the margin.

import { EditorView } from "@codemirror/view";
import { useEffect, useMemo, useRef, useState } from "react";

import { messageOf } from "../api/client.ts";
import type { Json } from "../api/types.ts";
import { findDefaults } from "../model/defaults.ts";
import { type Path, listKinds, pathKey, pathText } from "../model/fields.ts";
import { RECENT_MS, marginLines, objectLines } from "../model/margins.ts";
import { type Owner, type OwnershipMap, ownership } from "../model/owners.ts";
import { age } from "../model/table.ts";
import { createEditor, replaceText } from "../parts/editor.ts";
import { ownersMargin, setMargin } from "../parts/margin.ts";
import { useConnection, useNow } from "../parts/context.ts";
import type { PanelProps } from "./ObjectView.tsx";
import { type OwnershipChange, OwnershipDialog } from "./OwnershipDialog.tsx";

export function OwnersPanel({ resource, object, state }: PanelProps) {
  const { client } = useConnection();
  const holder = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const [filter, setFilter] = useState<ReadonlySet<number>>(new Set());
  const [defaults, setDefaults] = useState<ReadonlySet<string>>(new Set());
  const [message, setMessage] = useState("");
  const [selection, setSelection] = useState({ first: 0, last: 0 });
  const [change, setChange] = useState<OwnershipChange>();
  const now = useNow(5_000);

  const lines = useMemo(() => objectLines(object), [object]);
  const map = useMemo(() => ownership(object, defaults), [object, defaults]);
  const margin = useMemo(
    () => marginLines(lines, map, { filter, changes: state.changes, now }),
    [lines, map, filter, state.changes, now],
  );

  useEffect(() => {
    if (!holder.current) return;
    const created = createEditor(holder.current, {
      text: "",
      label: "Object as YAML",
      isReadOnly: true,
      extensions: [
        ownersMargin(),
        EditorView.updateListener.of((update) => {
          if (!update.selectionSet && !update.docChanged) return;
          const { from, to } = update.state.selection.main;
          const [first, last] = [from, to].map((offset) => update.state.doc.lineAt(offset).number - 1) as [number, number];
          setSelection((old) => (old.first === first && old.last === last ? old : { first, last }));
        }),
      ],
    });
    view.current = created;
    return () => created.destroy();
  }, []);

  useEffect(() => {
    if (!view.current) return;
    replaceText(view.current, lines.text);
    view.current.dispatch({ effects: setMargin.of(margin) });
  }, [lines, margin]);

  const chosen = useMemo(() => chosenFields(map, lines.paths.slice(selection.first, selection.last + 1)), [map, lines, selection]);
  const hasUnowned = map.unowned.length > 0;
  const checkDefaults = async (): Promise<void> => {
    try {
      const found = await findDefaults(client, resource, object);
      setDefaults(found);
      setMessage(`${found.size} of ${map.unowned.length} fields without a manager are defaults.`);
    } catch (error) {
      setMessage(`The dry run failed: ${messageOf(error)}`);
    }
  };
  const toggle = (index: number): void => {
    const next = new Set(filter);
    if (!next.delete(index)) next.add(index);
    setFilter(next);
  };

  return (
    <>
      {state.contests.map(({ field, managers, count }) => (
        <p key={field} className="notice is-error" role="status">
          Tug of war: <code>{field}</code> was changed {count} times in the last hour, by {managers.join(" and ")}.
        </p>
      ))}
      <div className="owners">
        <div className="code">
          <div ref={holder} className="editor" />
          <div className="line-details">
            <LineDetails
              path={lines.paths[selection.first]}
              margin={margin[selection.first]?.title ?? ""}
              object={object as unknown as Json}
              kinds={listKinds(object.metadata.managedFields ?? [])}
            />
            <span className="line-actions">
              {chosen.length > 1 && <span className="hint">{chosen.length} fields</span>}
              <button type="button" disabled={chosen.length === 0} onClick={() => setChange({ kind: "take", paths: chosen })}>
                Become owner…
              </button>
              <button
                type="button"
                disabled={!chosen.some((path) => map.at(path)?.owners.some(({ entry }) => entry.operation === "Apply"))}
                onClick={() => setChange({ kind: "give", paths: chosen })}
              >
                Give up…
              </button>
            </span>
          </div>
          <OwnershipDialog change={change} resource={resource} object={object} onClose={() => setChange(undefined)} />
        </div>
        <aside className="legend" aria-label="Managers">
          <h2>Managers</h2>
          <p className="hint">Choose managers to highlight their fields.</p>
          <ul>
            {map.owners.map((owner) => (
              <ManagerItem
                key={owner.index}
                owner={owner}
                count={countOf(map, owner, lines)}
                isOn={filter.has(owner.index)}
                now={now}
                onToggle={() => toggle(owner.index)}
                onMigrate={() => setChange({ kind: "migrate", owner })}
              />
            ))}
          </ul>
          {map.owners.length === 0 && <p className="hint">No manager owns a field of this object.</p>}
          <h2>Fields without a manager</h2>
          <p className="hint">
            {hasUnowned
              ? `${map.unowned.length} fields have no manager. A dry run shows which of them are defaults; it stores nothing.`
              : "Every field has a manager."}
          </p>
          {hasUnowned && resource.verbs.includes("update") && (
            <button type="button" onClick={() => void checkDefaults()}>
              Find defaults
            </button>
          )}
          <p className="hint" role="status">
            {message}
          </p>
          {[...state.changes.values()].some((time) => now - time < RECENT_MS) && (
            <p className="recent-key">Changed in the last minute</p>
          )}
        </aside>
      </div>
    </>
  );
}

/** Returns the fields of lines: those below a line that shows a map or a list, except for those of the server. */
function chosenFields(map: OwnershipMap, paths: readonly Path[]): Path[] {
  const begins = paths.filter((path) => path.length > 0).map((path) => pathKey(path));
  // A line that shows a container selects its content only if it is the only line.
  const containers = begins.length === 1 ? begins : [];
  const found: Path[] = [];
  for (const { path, leafOwners, unowned } of map.all()) {
    const key = pathKey(path);
    const isField = leafOwners.length > 0 || unowned === "default" || unowned === "none";
    if (
      isField &&
      path[0] !== "status" &&
      (begins.includes(key) || containers.some((container) => key.startsWith(`${container}/`)))
    )
      found.push(path);
  }
  return found;
}

function countOf(map: OwnershipMap, owner: Owner, { paths, isFirst }: ReturnType<typeof objectLines>): number {
  return paths.filter((path, index) => isFirst[index] && map.at(path)?.owners.some(({ index: other }) => other === owner.index))
    .length;
}

interface ManagerItemProps {
  owner: Owner;
  count: number;
  isOn: boolean;
  now: number;
  onToggle(): void;
  onMigrate(): void;
}

function ManagerItem({ owner, count, isOn, now, onToggle, onMigrate }: ManagerItemProps) {
  const { manager, operation, subresource, time, apiVersion } = owner.entry;
  return (
    <li>
      <label className="manager">
        <input type="checkbox" checked={isOn} onChange={onToggle} />
        <span className="swatch" style={{ backgroundColor: `var(--owner-${owner.colour})` }} />
        <span className="manager-name">{manager}</span>
        <small>
          {operation}
          {subresource ? ` of ${subresource}` : ""}, {apiVersion}
          {time && (
            <>
              , <time dateTime={time} title={time}>{`${age(time, now)} ago`}</time>
            </>
          )}
          {`, ${count} ${count === 1 ? "line" : "lines"}`}
        </small>
      </label>
      {operation === "Update" && !subresource && (
        <button
          type="button"
          className="is-quiet"
          aria-label={`Move the fields of ${manager} to Server-Side Apply`}
          onClick={onMigrate}
        >
          Move to Server-Side Apply…
        </button>
      )}
    </li>
  );
}

interface LineDetailsProps {
  path: readonly (string | number)[] | undefined;
  margin: string;
  object: Json;
  kinds: ReturnType<typeof listKinds>;
}

function LineDetails({ path, margin, object, kinds }: LineDetailsProps) {
  return (
    <p role="status">
      {path && path.length > 0 && (
        <>
          <code>{pathText(path, object, kinds)}</code> <span>{margin || "Contains fields of the managers below it"}</span>
        </>
      )}
    </p>
  );
}
