// The managers of a namespace, and the objects in which they own fields.

import { useEffect, useMemo, useState } from "react";

import { messageOf } from "../api/client.ts";
import { resourceName } from "../api/discovery.ts";
import { type FieldSet, parseFieldSet } from "../model/fields.ts";
import { type Scan, type Scanned, MAX_SCANNED, scan } from "../model/scan.ts";
import { age } from "../model/table.ts";
import { objectSegments, useConnection, useNow } from "../parts/context.ts";
import { Picker } from "../parts/Picker.tsx";
import { type Route, fragmentOf, replaceParameters } from "../route.ts";

/** Maximum number of objects that are shown for one manager. */
const MAX_OBJECTS = 200;

interface ManagerSummary {
  name: string;
  operations: Set<string>;
  objects: { scanned: Scanned; fields: number }[];
  fields: number;
  last: string;
}

export function ManagersView({ route }: { route: Route }) {
  const { client, resources, namespaces } = useConnection();
  const place = route.parameters.get("namespace") ?? "default";
  const namespace = place === "-" ? "" : place;
  const [found, setFound] = useState<Scan>();
  const [progress, setProgress] = useState(0);
  const [error, setError] = useState("");
  const now = useNow(10_000);
  useEffect(() => {
    const abort = new AbortController();
    setFound(undefined);
    setError("");
    scan(client, resources, namespace, abort.signal, setProgress)
      .then((result) => !abort.signal.aborted && setFound(result))
      .catch((failure: unknown) => !abort.signal.aborted && setError(messageOf(failure)));
    return () => abort.abort();
  }, [client, resources, namespace]);
  const managers = useMemo(() => summaries(found?.objects ?? []), [found]);
  const choices = useMemo(
    () => [{ value: "", label: "cluster-scoped objects" }, ...namespaces.map((name) => ({ value: name, label: name }))],
    [namespaces],
  );
  return (
    <section className="apply">
      <h1>Managers</h1>
      <div className="toolbar">
        <Picker
          label="Namespace"
          value={namespace}
          choices={choices}
          isFree
          onChange={(name) => replaceParameters({ namespace: name || "-" })}
        />
      </div>
      {error && (
        <p className="notice is-error" role="alert">
          {error}
        </p>
      )}
      <p className="hint" role="status">
        {found
          ? `${managers.length} managers in ${found.objects.length} objects.${found.isCut ? ` Only ${MAX_SCANNED} objects were read.` : ""}${found.denied.length > 0 ? ` You may not list ${found.denied.map(resourceName).join(", ")}.` : ""}`
          : error
            ? ""
            : `Reading: ${Math.round(progress * 100)} %`}
      </p>
      {managers.map((manager) => (
        <details key={manager.name} className="plan">
          <summary>
            <strong>{manager.name}</strong>{" "}
            <span className="hint">
              {[...manager.operations].sort().join(", ")}; {manager.objects.length}{" "}
              {manager.objects.length === 1 ? "object" : "objects"}; {manager.fields} fields; last write{" "}
              {age(manager.last, now) || "unknown"} ago
            </span>
          </summary>
          <ul className="given-up">
            {manager.objects.slice(0, MAX_OBJECTS).map(({ scanned: { resource, object }, fields }) => (
              <li key={object.metadata.uid}>
                <a href={fragmentOf(objectSegments(resource, object.metadata.namespace ?? "", object.metadata.name))}>
                  {resource.kind} {object.metadata.name}
                </a>{" "}
                <small>{fields} fields</small>
              </li>
            ))}
          </ul>
          {manager.objects.length > MAX_OBJECTS && <p className="hint">{manager.objects.length - MAX_OBJECTS} more objects</p>}
        </details>
      ))}
    </section>
  );
}

function summaries(objects: Scanned[]): ManagerSummary[] {
  const found = new Map<string, ManagerSummary>();
  for (const scanned of objects) {
    for (const { manager, operation, time = "", fieldsV1 } of scanned.object.metadata.managedFields ?? []) {
      const summary = found.get(manager) ?? { name: manager, operations: new Set(), objects: [], fields: 0, last: "" };
      found.set(manager, summary);
      const fields = countFields(parseFieldSet(fieldsV1));
      summary.operations.add(operation);
      summary.fields += fields;
      if (time > summary.last) summary.last = time;
      const last = summary.objects.at(-1);
      // A manager may have several entries in one object.
      if (last?.scanned === scanned) last.fields += fields;
      else summary.objects.push({ scanned, fields });
    }
  }
  return [...found.values()].sort((left, right) => right.fields - left.fields || left.name.localeCompare(right.name));
}

function countFields(set: FieldSet): number {
  const children = [
    ...set.fields.values(),
    ...set.items.map(({ node }) => node),
    ...set.values.map(({ node }) => node),
    ...set.indexes.values(),
  ];
  if (children.length === 0) return set.isMember ? 1 : 0;
  return children.reduce((sum, child) => sum + countFields(child), 0);
}
