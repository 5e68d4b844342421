// Dialogs that prepare a change of ownership. The changes themselves are previewed before they are made.

import { Dialog, DialogDismiss, DialogHeading } from "@ariakit/react";
import { type ReactNode, useState } from "react";

import { messageOf, objectPath } from "../api/client.ts";
import type { Json, KubeObject, ManagedFieldsEntry, Resource } from "../api/types.ts";
import { type Path, listKinds, pathText } from "../model/fields.ts";
import { migrated } from "../model/migrate.ts";
import { type Owner, ownersOf } from "../model/owners.ts";
import { configuration, ownedFields } from "../model/pick.ts";
import { toYaml } from "../model/yamlLines.ts";
import { useConnection } from "../parts/context.ts";
import { changeDraft } from "../parts/draft.ts";
import { fragmentOf, go } from "../route.ts";

/** Maximum number of fields that a dialog lists. */
const MAX_LISTED = 12;

/** Change of ownership that a dialog prepares. */
export type OwnershipChange = { kind: "take"; paths: Path[] } | { kind: "give"; paths: Path[] } | { kind: "migrate"; owner: Owner };

interface DialogProps {
  change: OwnershipChange | undefined;
  resource: Resource;
  object: KubeObject;
  onClose(): void;
}

export function OwnershipDialog({ change, resource, object, onClose }: DialogProps) {
  return (
    <Dialog
      open={change !== undefined}
      onClose={onClose}
      className="dialog"
      backdrop={<div className="backdrop" />}
      preventBodyScroll={false}
      unmountOnHide
    >
      {change?.kind === "migrate" && <Migration owner={change.owner} resource={resource} object={object} onClose={onClose} />}
      {change && change.kind !== "migrate" && <FieldChange key={change.kind} change={change} object={object} />}
    </Dialog>
  );
}

const isApplier = ({ entry }: Owner): boolean => entry.operation === "Apply" && !entry.subresource;

/** Opens the preview of a manifest. */
function preview(manifest: Json, manager: string): void {
  changeDraft({ text: toYaml(manifest), manager });
  go(fragmentOf(["apply"], { preview: "true" }));
}

function FieldChange({ change, object }: { change: { kind: "take" | "give"; paths: Path[] }; object: KubeObject }) {
  const isTake = change.kind === "take";
  const owners = ownersOf(object).filter(isApplier);
  const names = [...new Set(owners.map(({ entry }) => entry.manager))];
  const kinds = listKinds(object.metadata.managedFields ?? []);
  const texts = change.paths.map((path) => pathText(path, object as unknown as Json, kinds));
  const fieldsOf = (manager: string): Map<string, Path> =>
    ownedFields(object, (owner) => isApplier(owner) && owner.entry.manager === manager);
  const givers = names.filter((name) => texts.some((text) => fieldsOf(name).has(text)));
  const [manager, setManager] = useState(isTake ? "" : (givers[0] ?? ""));
  const open = (): void => {
    const fields = fieldsOf(manager.trim());
    change.paths.forEach((path, index) => {
      const text = texts[index] as string;
      if (isTake) fields.set(text, path);
      else fields.delete(text);
    });
    preview(configuration(object, fields.values()), manager.trim());
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        open();
      }}
    >
      <DialogHeading>{isTake ? "Become the owner of fields" : "Give up fields"}</DialogHeading>
      <ul className="given-up">
        {texts.slice(0, MAX_LISTED).map((text) => (
          <li key={text}>
            <code>{text}</code>
          </li>
        ))}
      </ul>
      {texts.length > MAX_LISTED && <p className="hint">and {texts.length - MAX_LISTED} more</p>}
      {isTake || givers.length > 0 ? (
        <>
          <label className="field">
            <span>Field manager</span>
            {isTake ? (
              <>
                <input
                  value={manager}
                  required
                  list="appliers"
                  spellCheck={false}
                  maxLength={128}
                  onChange={(event) => setManager(event.target.value)}
                />
                <datalist id="appliers">
                  {names.map((name) => (
                    <option key={name} value={name} />
                  ))}
                </datalist>
              </>
            ) : (
              <select value={manager} onChange={(event) => setManager(event.target.value)}>
                {givers.map((name) => (
                  <option key={name}>{name}</option>
                ))}
              </select>
            )}
          </label>
          <p className="hint">
            {isTake
              ? "The preview shows an apply of these fields and of those that the manager has applied already."
              : "The preview shows an apply of the manager without these fields. Fields that nobody else owns are removed or get their default."}
          </p>
        </>
      ) : (
        <p className="hint">
          No manager has applied these fields. Managers of updates keep their fields until others take them over.
        </p>
      )}
      <div className="actions">
        <button type="submit" className="is-primary" disabled={!manager.trim()}>
          Preview
        </button>
        <DialogDismiss>Cancel</DialogDismiss>
      </div>
    </form>
  );
}

interface MigrationProps {
  owner: Owner;
  resource: Resource;
  object: KubeObject;
  onClose(): void;
}

/** Moves the fields of updates to a manager of applies, so that the next apply can remove fields. */
function Migration({ owner, resource, object, onClose }: MigrationProps) {
  const { client } = useConnection();
  const from = owner.entry.manager;
  const [to, setTo] = useState(from === "kubectl-client-side-apply" ? "kubectl" : from);
  const [result, setResult] = useState<{ entries: ManagedFieldsEntry[]; for: string }>();
  const [error, setError] = useState("");
  const send = async (isDryRun: boolean): Promise<KubeObject> => {
    const path = objectPath(resource, object.metadata.namespace ?? "", object.metadata.name);
    return client.json<KubeObject>(`${path}${isDryRun ? "?dryRun=All" : ""}`, {
      method: "PATCH",
      contentType: "application/json-patch+json",
      // The resource version makes the patch fail if the object has changed.
      body: JSON.stringify([
        {
          op: "replace",
          path: "/metadata/managedFields",
          value: migrated(object.metadata.managedFields ?? [], owner.index, to.trim()),
        },
        { op: "replace", path: "/metadata/resourceVersion", value: object.metadata.resourceVersion },
      ]),
    });
  };
  const run = async (isDryRun: boolean): Promise<void> => {
    setError("");
    try {
      const { metadata } = await send(isDryRun);
      if (!isDryRun) return onClose();
      setResult({ entries: metadata.managedFields ?? [], for: to });
    } catch (failure) {
      setError(messageOf(failure));
    }
  };
  const isPreviewed = result?.for === to;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void run(!isPreviewed);
      }}
    >
      <DialogHeading>Move to Server-Side Apply</DialogHeading>
      <p>
        The fields that <strong>{from}</strong> owns by updates move to a manager of applies. Its next apply removes those that it
        leaves out.
      </p>
      <label className="field">
        <span>Field manager of the applies</span>
        <input value={to} required spellCheck={false} maxLength={128} onChange={(event) => setTo(event.target.value)} />
      </label>
      {isPreviewed && (
        <Preview title="Managers afterwards">
          {result.entries.map((entry, index) => (
            <li key={index}>
              {entry.manager} ({entry.operation}
              {entry.subresource ? `, ${entry.subresource}` : ""})
            </li>
          ))}
        </Preview>
      )}
      {error && (
        <p className="notice is-error" role="alert">
          {error}
        </p>
      )}
      <div className="actions">
        <button type="submit" className="is-primary" disabled={!to.trim()}>
          {isPreviewed ? "Move" : "Preview"}
        </button>
        <DialogDismiss>Cancel</DialogDismiss>
      </div>
    </form>
  );
}

function Preview({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div role="status">
      <h3>{title}</h3>
      <ul className="given-up">{children}</ul>
    </div>
  );
}
