// Who may do what to an object, by subject access reviews.

import { useEffect, useState } from "react";

import { ApiError, type Client, messageOf } from "../api/client.ts";
import type { KubeObject, Resource } from "../api/types.ts";
import { useConnection } from "../parts/context.ts";
import type { PanelProps } from "./ObjectView.tsx";

/** Verbs that are asked about. */
const VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"];

/** Maximum number of subjects of role bindings that are asked about. */
const MAX_SUBJECTS = 100;

/** Subject of a review. */
interface Subject {
  kind: "self" | "User" | "Group" | "ServiceAccount";
  title: string;
  user?: string;
  groups?: string[];
}

interface Review {
  status?: { allowed: boolean; denied?: boolean; reason?: string; evaluationError?: string };
}

interface ReviewRow {
  subject: Subject;
  answers: (Review["status"] | undefined)[];
}

const SELF: Subject = { kind: "self", title: "You" };

export function AccessPanel({ resource, object }: PanelProps) {
  const { client } = useConnection();
  const [rows, setRows] = useState<ReviewRow[]>([]);
  const [error, setError] = useState("");
  const [user, setUser] = useState("");
  const [groups, setGroups] = useState("");
  const [isBusy, setBusy] = useState(false);
  const ask = async (subjects: Subject[]): Promise<void> => {
    setBusy(true);
    setError("");
    try {
      for (const subject of subjects) {
        const row = await review(client, resource, object, subject);
        setRows((rows) => [...rows.filter(({ subject: { title } }) => title !== subject.title), row]);
      }
    } catch (failure) {
      setError(messageOf(failure));
    }
    setBusy(false);
  };
  useEffect(() => void ask([SELF]), [client, resource, object.metadata.uid]);
  const askBound = async (): Promise<void> => {
    try {
      await ask(await boundSubjects(client, object.metadata.namespace ?? ""));
    } catch (failure) {
      setError(messageOf(failure));
    }
  };
  return (
    <div className="access">
      <form
        className="toolbar"
        onSubmit={(event) => {
          event.preventDefault();
          const list = groups
            .split(",")
            .map((group) => group.trim())
            .filter(Boolean);
          void ask([
            {
              kind: "User",
              title: [user, ...list.map((group) => `group ${group}`)].filter(Boolean).join(", "),
              user,
              groups: list,
            },
          ]);
        }}
      >
        <label className="field">
          <span>User</span>
          <input value={user} spellCheck={false} onChange={(event) => setUser(event.target.value)} />
        </label>
        <label className="field">
          <span>Groups, separated by commas</span>
          <input value={groups} spellCheck={false} onChange={(event) => setGroups(event.target.value)} />
        </label>
        <div className="actions">
          <button type="submit" className="is-primary" disabled={isBusy || (!user.trim() && !groups.trim())}>
            Ask
          </button>
          <button type="button" disabled={isBusy} onClick={() => void askBound()}>
            Ask about everyone with a role here
          </button>
        </div>
      </form>
      {error && (
        <p className="notice is-error" role="alert">
          {error}
        </p>
      )}
      <div className="scroll" tabIndex={0} role="region" aria-label="Permissions">
        <table>
          <thead>
            <tr>
              <th>Subject</th>
              {VERBS.map((verb) => (
                <th key={verb}>{verb}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ subject, answers }) => (
              <tr key={subject.title}>
                <th scope="row">{subject.title}</th>
                {answers.map((answer, index) => (
                  <td
                    key={VERBS[index]}
                    title={answer?.reason || answer?.evaluationError}
                    className={answer?.allowed ? "is-allowed" : ""}
                  >
                    {answer?.allowed ? "yes" : "no"}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

async function review(client: Client, resource: Resource, object: KubeObject, subject: Subject): Promise<ReviewRow> {
  const answers = VERBS.map(async (verb) => {
    const resourceAttributes = {
      namespace: object.metadata.namespace ?? "",
      verb,
      group: resource.group,
      version: resource.version,
      resource: resource.plural,
      name: object.metadata.name,
    };
    const kind = subject.kind === "self" ? "SelfSubjectAccessReview" : "SubjectAccessReview";
    const spec =
      subject.kind === "self" ? { resourceAttributes } : { resourceAttributes, user: subject.user, groups: subject.groups };
    const path = `/apis/authorization.k8s.io/v1/${kind.toLowerCase()}s`;
    const { status } = await client.post<Review>(path, { apiVersion: "authorization.k8s.io/v1", kind, spec });
    return status;
  });
  return { subject, answers: await Promise.all(answers) };
}

interface Binding extends KubeObject {
  subjects?: { kind: string; name: string; namespace?: string }[];
}

/** Returns the subjects of the bindings that concern a namespace. */
async function boundSubjects(client: Client, namespace: string): Promise<Subject[]> {
  const rbac = "/apis/rbac.authorization.k8s.io/v1";
  const paths = [
    `${rbac}/clusterrolebindings`,
    ...(namespace ? [`${rbac}/namespaces/${encodeURIComponent(namespace)}/rolebindings`] : []),
  ];
  const found = new Map<string, Subject>();
  for (const path of paths) {
    const list = await client.json<{ items: Binding[] }>(`${path}?limit=1000`).catch((error: unknown) => {
      if (error instanceof ApiError && error.code === 403)
        throw new Error("You may not list the role bindings, which name the subjects.");
      throw error;
    });
    for (const { kind, name, namespace: home = "" } of list.items.flatMap(({ subjects }) => subjects ?? [])) {
      const subject = subjectOf(kind, name, home);
      if (found.size < MAX_SUBJECTS) found.set(subject.title, subject);
    }
  }
  return [...found.values()];
}

function subjectOf(kind: string, name: string, namespace: string): Subject {
  if (kind === "ServiceAccount") {
    const groups = ["system:serviceaccounts", `system:serviceaccounts:${namespace}`, "system:authenticated"];
    return { kind, title: `ServiceAccount ${namespace}/${name}`, user: `system:serviceaccount:${namespace}:${name}`, groups };
  }
  if (kind === "Group") return { kind, title: `Group ${name}`, groups: [name] };
  return { kind: "User", title: `User ${name}`, user: name, groups: ["system:authenticated"] };
}
