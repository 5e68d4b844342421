// What would happen: a manifest, a manager, and the changes that an apply would make.

import { EditorView } from "@codemirror/view";
import { useEffect, useRef, useState } from "react";

import { messageOf } from "../api/client.ts";
import type { Json } from "../api/types.ts";
import type { Difference } from "../model/diff.ts";
import { ownerText } from "../model/owners.ts";
import { type Decision, type Plan, type PlanContext, applyPlan, edited, makePlan, readManifests } from "../model/plan.ts";
import { toYaml } from "../model/yamlLines.ts";
import { objectSegments, useConnection } from "../parts/context.ts";
import { changeDraft, readDraft } from "../parts/draft.ts";
import { createEditor, replaceText } from "../parts/editor.ts";
import { type Route, fragmentOf, replaceParameters } from "../route.ts";

/** Maximum number of bytes of a dropped file. */
const MAX_FILE_BYTES = 8 << 20;

/** Decisions by the index of the plan and the field of the conflict. */
type Decisions = ReadonlyMap<Plan, ReadonlyMap<string, Decision>>;

export function ApplyView({ route }: { route: Route }) {
  const { client, resources, namespaces } = useConnection();
  const holder = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const [draft, setDraft] = useState(readDraft);
  const [plans, setPlans] = useState<Plan[]>();
  const [decisions, setDecisions] = useState<Decisions>(new Map());
  const [results, setResults] = useState<ReadonlyMap<Plan, string>>(new Map());
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const outcome = useRef<HTMLDivElement>(null);

  const change = (changes: Partial<typeof draft>): void => {
    changeDraft(changes);
    setDraft(readDraft());
    setPlans(undefined);
  };
  useEffect(() => {
    if (!holder.current) return;
    const created = createEditor(holder.current, {
      text: readDraft().text,
      label: "Manifest",
      isReadOnly: false,
      extensions: [
        EditorView.updateListener.of((update) => {
          if (update.docChanged) change({ text: update.state.doc.toString() });
        }),
      ],
    });
    view.current = created;
    return () => created.destroy();
    // The editor keeps its text itself.
  }, []);

  const context: PlanContext = { client, resources, manager: draft.manager.trim(), namespace: draft.namespace };
  const plan = async (text: string): Promise<void> => {
    setBusy(true);
    setError("");
    try {
      const made: Plan[] = [];
      for (const document of readManifests(text)) made.push(await makePlan(context, document));
      setPlans(made);
      setDecisions(new Map());
      setResults(new Map());
      setTimeout(() => outcome.current?.focus());
    } catch (failure) {
      setPlans(undefined);
      setError(messageOf(failure));
    }
    setBusy(false);
  };
  const decide = (plan: Plan, choices: [string, Decision][]): void => {
    const next = new Map(decisions);
    next.set(plan, new Map([...(decisions.get(plan) ?? []), ...choices]));
    setDecisions(next);
  };
  const isDecided = (plan: Plan): boolean => plan.conflicts.every(({ field }) => decisions.get(plan)?.has(field));
  const apply = async (): Promise<void> => {
    setBusy(true);
    const done = new Map<Plan, string>();
    for (const plan of plans ?? []) {
      try {
        await applyPlan(context, plan, decisions.get(plan) ?? new Map());
        done.set(plan, "");
      } catch (failure) {
        done.set(plan, messageOf(failure));
      }
    }
    setResults(done);
    setBusy(false);
  };
  /** Shows the manifests after the decisions in the editor, and plans again. */
  const rewrite = async (): Promise<void> => {
    const text = (plans ?? [])
      .map((plan) =>
        edited(plan, decisions.get(plan) ?? new Map())
          .toString()
          .replace(/^---\n/, ""),
      )
      .join("---\n");
    if (view.current) replaceText(view.current, text);
    await plan(text);
  };
  const hasEdits = (plans ?? []).some((plan) =>
    [...(decisions.get(plan)?.values() ?? [])].some((decision) => decision !== "force"),
  );
  const isReady = plans !== undefined && plans.every((plan) => !plan.error && isDecided(plan)) && results.size === 0;

  // Other parts of the page open a prepared manifest with its preview.
  const wantsPreview = route.parameters.get("preview") === "true";
  useEffect(() => {
    if (!wantsPreview) return;
    replaceParameters({ preview: "" });
    void plan(readDraft().text);
  }, [wantsPreview]);

  return (
    <section className="apply">
      <h1>What would happen</h1>
      <p className="hint">
        Write, paste or drop manifests, and name the field manager that applies them. The preview is a dry run: it stores nothing.
      </p>
      <div className="toolbar">
        <label className="field">
          <span>Field manager</span>
          <input
            value={draft.manager}
            placeholder="for example ci"
            spellCheck={false}
            maxLength={128}
            onChange={(event) => change({ manager: event.target.value })}
          />
        </label>
        <label className="field">
          <span>Namespace, if a manifest has none</span>
          <input
            value={draft.namespace}
            list="namespaces"
            spellCheck={false}
            onChange={(event) => change({ namespace: event.target.value })}
          />
          <datalist id="namespaces">
            {namespaces.map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
        </label>
        <label className="field file">
          <span>File</span>
          <input
            type="file"
            accept=".yaml,.yml,.json"
            multiple
            onChange={(event) => void readFiles([...(event.target.files ?? [])], view.current, setError)}
          />
        </label>
      </div>
      <div
        ref={holder}
        className="editor manifest"
        onDragOver={(event) => event.preventDefault()}
        onDrop={(event) => {
          event.preventDefault();
          void readFiles([...event.dataTransfer.files], view.current, setError);
        }}
      />
      <div className="actions">
        <button
          type="button"
          className="is-primary"
          disabled={isBusy || !context.manager || !draft.text.trim()}
          onClick={() => void plan(draft.text)}
        >
          Preview
        </button>
        {!context.manager && <span className="hint">The preview needs a field manager.</span>}
      </div>
      {error && (
        <p className="notice is-error" role="alert">
          {error}
        </p>
      )}
      <div ref={outcome} tabIndex={-1} className="plans" aria-live="polite">
        {plans?.map((plan, index) => (
          <PlanPanel
            key={`${index} ${plan.title}`}
            plan={plan}
            manager={context.manager}
            decisions={decisions.get(plan) ?? new Map()}
            result={results.get(plan)}
            onDecide={(choices) => decide(plan, choices)}
          />
        ))}
      </div>
      {plans && results.size === 0 && (
        <div className="actions">
          <button type="button" className="is-primary" disabled={!isReady || isBusy} onClick={() => void apply()}>
            {plans.length === 1 ? "Apply" : `Apply ${plans.length} objects`}
          </button>
          {hasEdits && (
            <button type="button" disabled={isBusy} onClick={() => void rewrite()}>
              Put the decisions into the manifest
            </button>
          )}
          {!isReady && (
            <span className="hint">
              {plans.some((plan) => plan.error) ? "Some objects cannot be applied." : "Decide about each conflict first."}
            </span>
          )}
        </div>
      )}
    </section>
  );
}

async function readFiles(files: File[], view: EditorView | undefined, report: (error: string) => void): Promise<void> {
  if (!view || files.length === 0) return;
  if (files.reduce((sum, { size }) => sum + size, 0) > MAX_FILE_BYTES) return report("The files are too large.");
  const texts = await Promise.all(files.map((file) => file.text()));
  report("");
  replaceText(view, texts.map((text) => text.replace(/\n?$/, "\n")).join("---\n"));
}

interface PlanPanelProps {
  plan: Plan;
  manager: string;
  decisions: ReadonlyMap<string, Decision>;
  /** Outcome of the apply: empty if it succeeded; none before it. */
  result: string | undefined;
  onDecide(choices: [string, Decision][]): void;
}

const DECISIONS: { value: Decision; title: string }[] = [
  { value: "force", title: "Force: become the owner" },
  { value: "share", title: "Share: apply the stored value" },
  { value: "omit", title: "Leave it out of the manifest" },
];

function PlanPanel({ plan, manager, decisions, result, onDecide }: PlanPanelProps) {
  const { conflicts, givenUp, existing, resource } = plan;
  const changes = plan.differences.filter(({ path }) => path[0] !== "status");
  const all = (decision: Decision): void => onDecide(conflicts.map(({ field }) => [field, decision]));
  const isNothing = !plan.error && changes.length === 0 && conflicts.length === 0 && givenUp.length === 0 && existing !== undefined;
  return (
    <article className="plan">
      <h2>{plan.title || "Manifest"}</h2>
      {plan.error && <p className="notice is-error">{plan.error}</p>}
      {result !== undefined && (
        <p className={`notice ${result ? "is-error" : "is-good"}`} role="status">
          {result || "Applied. "}
          {!result && resource && <a href={fragmentOf(objectSegments(resource, plan.namespace, plan.name))}>Open the object</a>}
        </p>
      )}
      {!plan.error && !existing && <p className="hint">The object does not exist and would be created.</p>}
      {isNothing && <p className="hint">Nothing would change.</p>}
      {conflicts.length > 0 && (
        <>
          <h3>{conflicts.length === 1 ? "1 conflict" : `${conflicts.length} conflicts`}</h3>
          <p className="actions">
            <button type="button" onClick={() => all("force")}>
              Force all
            </button>
            <button type="button" onClick={() => all("share")}>
              Share all
            </button>
          </p>
          <div className="scroll" tabIndex={0} role="region" aria-label="Conflicts">
            <table>
              <thead>
                <tr>
                  <th>Field</th>
                  <th>Manager</th>
                  <th>Stored value</th>
                  <th>Requested value</th>
                  <th>Decision</th>
                </tr>
              </thead>
              <tbody>
                {conflicts.map((conflict) => (
                  <tr key={`${conflict.field} ${conflict.manager}`}>
                    <td>
                      <code>{conflict.field}</code>
                    </td>
                    <td>
                      {conflict.manager} {conflict.operation && <small>({conflict.operation})</small>}
                    </td>
                    <td>
                      <Value value={conflict.stored} />
                    </td>
                    <td>
                      <Value value={conflict.requested} />
                    </td>
                    <td>
                      <select
                        aria-label={`Decision about ${conflict.field}`}
                        value={decisions.get(conflict.field) ?? ""}
                        onChange={(event) => onDecide([[conflict.field, event.target.value as Decision]])}
                      >
                        <option value="" disabled>
                          Decide…
                        </option>
                        {DECISIONS.filter(({ value }) => value === "force" || conflict.path).map(({ value, title }) => (
                          <option key={value} value={value}>
                            {title}
                          </option>
                        ))}
                      </select>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
      {changes.length > 0 && (
        <>
          <h3>{conflicts.length > 0 ? "Changes, if all conflicts are forced" : "Changes"}</h3>
          <Changes changes={changes} />
        </>
      )}
      {givenUp.length > 0 && (
        <>
          <h3>Fields that {manager} gives up</h3>
          <ul className="given-up">
            {givenUp.map(({ field, isRemoved, keptBy }) => (
              <li key={field}>
                <code>{field}</code>{" "}
                {isRemoved
                  ? "is removed"
                  : keptBy.length > 0
                    ? `stays with ${keptBy.map(ownerText).join(" and ")}`
                    : "stays without a manager"}
              </li>
            ))}
          </ul>
        </>
      )}
    </article>
  );
}

const TITLES: Record<Difference["kind"], string> = { added: "Added", changed: "Changed", removed: "Removed" };

function Changes({ changes }: { changes: Difference[] }) {
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Changes">
      <table className="changes">
        <thead>
          <tr>
            <th>Change</th>
            <th>Field</th>
            <th>Before</th>
            <th>After</th>
          </tr>
        </thead>
        <tbody>
          {changes.map(({ kind, text, before, after }) => (
            <tr key={`${kind} ${text}`} className={`is-${kind}`}>
              <td>{TITLES[kind]}</td>
              <td>
                <code>{text}</code>
              </td>
              <td>
                <Value value={before} />
              </td>
              <td>
                <Value value={after} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Maximum number of characters of a value in a table. */
const MAX_SHOWN = 2_000;

function Value({ value }: { value: Json | undefined }) {
  if (value === undefined) return <span className="hint">–</span>;
  const text = typeof value === "string" ? value : toYaml(value).trimEnd();
  return <code className="value">{text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text}</code>;
}
