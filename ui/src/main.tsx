// The page at `/ui`.

import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

import { Client, messageOf } from "./api/client.ts";
import { discover } from "./api/discovery.ts";
import type { KubeObject } from "./api/types.ts";
import { type Connection, ConnectionContext } from "./parts/context.ts";
import { Shortcuts } from "./parts/Shortcuts.tsx";
import { type Route, useRoute } from "./route.ts";
import { apiRoot, forgetSession, isAnonymous, sessionFromCode, userOf } from "./session.ts";
import { ApplyView } from "./views/ApplyView.tsx";
import { Login } from "./views/Login.tsx";
import { ManagersView } from "./views/ManagersView.tsx";
import { ObjectView } from "./views/ObjectView.tsx";
import { ObjectsView, firstResource } from "./views/ObjectsView.tsx";

type Stage = { at: "starting" } | { at: "login"; notice: string } | { at: "connected"; connection: Connection };

const THEME_KEY = "holdfast-theme";

/** Time between two looks at discovery and namespaces, in milliseconds. */
const REFRESH_MS = 30_000;

async function connect(client: Client): Promise<Connection> {
  const user = await userOf(client);
  const [resources, namespaces] = await Promise.all([discover(client), namespacesOf(client)]);
  return { client, user, resources, namespaces };
}

/** Returns the names of the namespaces; none if the user may not list them. */
async function namespacesOf(client: Client): Promise<string[]> {
  const accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
  const names = async (query: string): Promise<string[]> => {
    const list = await client.json<{ items: KubeObject[] | null }>(`/api/v1/namespaces?limit=5000&pretty=false${query}`, {
      accept,
    });
    return (list.items ?? []).map(({ metadata }) => metadata.name);
  };
  try {
    // Holdfast lists the namespaces that the user may read, if they are not all.
    return await names("").catch(() => names("&authorizedOnly=true"));
  } catch {
    return [];
  }
}

function App() {
  const [stage, setStage] = useState<Stage>({ at: "starting" });
  const open = async (client: Client): Promise<void> => {
    try {
      setStage({ at: "connected", connection: await connect(client) });
    } catch (error) {
      setStage({ at: "login", notice: messageOf(error) });
    }
  };
  useEffect(() => {
    const start = async (): Promise<void> => {
      try {
        const credentials = (await sessionFromCode()) ?? { kind: "none" as const };
        const client = new Client(apiRoot(), credentials);
        // The browser may have sent a client certificate.
        const user = await userOf(client).catch(() => undefined);
        if (user && !isAnonymous(user)) return await open(client);
        setStage({ at: "login", notice: credentials.kind === "session" ? "The session has ended. Run `holdfast ui` again." : "" });
      } catch (error) {
        setStage({ at: "login", notice: messageOf(error) });
      }
    };
    void start();
  }, []);
  const client = stage.at === "connected" ? stage.connection.client : undefined;
  useEffect(() => {
    if (!client) return;
    // Kinds and namespaces come and go.
    const refresh = async (): Promise<void> => {
      const [resources, namespaces] = await Promise.all([discover(client), namespacesOf(client)]);
      setStage((stage) =>
        stage.at === "connected" ? { at: "connected", connection: updated(stage.connection, { resources, namespaces }) } : stage,
      );
    };
    const timer = setInterval(() => void refresh().catch(() => undefined), REFRESH_MS);
    return () => clearInterval(timer);
  }, [client]);

  if (stage.at === "starting") return <p className="notice">Loading…</p>;
  if (stage.at === "login") return <Login notice={stage.notice} onLogin={(client) => void open(client)} />;
  return (
    <ConnectionContext value={stage.connection}>
      <Frame
        connection={stage.connection}
        onLogout={() => {
          forgetSession();
          setStage({ at: "login", notice: "" });
        }}
      />
    </ConnectionContext>
  );
}

/** Returns the connection with new lists. Lists that are equal to the old ones stay, so that views do not load again. */
function updated(connection: Connection, lists: Pick<Connection, "resources" | "namespaces">): Connection {
  const same = <T,>(old: T, fresh: T): T => (JSON.stringify(old) === JSON.stringify(fresh) ? old : fresh);
  const known = new Map(connection.resources.map((resource) => [JSON.stringify(resource), resource]));
  const resources = lists.resources.map((resource) => known.get(JSON.stringify(resource)) ?? resource);
  return {
    ...connection,
    resources: same(connection.resources, resources),
    namespaces: same(connection.namespaces, lists.namespaces),
  };
}

function Frame({ connection, onLogout }: { connection: Connection; onLogout(): void }) {
  const route = useRoute();
  useEffect(() => {
    if (route.segments.length === 0) location.replace(firstResource(connection.resources));
  });
  const section = route.segments[0];
  const isAt = (name: string): "page" | undefined => (section === name ? "page" : undefined);
  return (
    <>
      <a className="skip" href="#main" onClick={skipToMain}>
        Skip to the content
      </a>
      <header className="top">
        <a className="brand" href="#/">
          Holdfast
        </a>
        <nav aria-label="Sections">
          <a href="#/" aria-current={isAt("objects")}>
            Objects
          </a>
          <a href="#/apply" aria-current={isAt("apply")}>
            What would happen
          </a>
          <a href="#/managers" aria-current={isAt("managers")}>
            Managers
          </a>
        </nav>
        <span className="user" title={connection.user.groups.join(", ")}>
          {connection.user.name}
        </span>
        <Shortcuts />
        <ThemeButton />
        <button type="button" className="is-quiet" onClick={onLogout}>
          Log out
        </button>
      </header>
      <main id="main" tabIndex={-1}>
        <View route={route} />
      </main>
    </>
  );
}

function skipToMain(event: React.MouseEvent): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function View({ route }: { route: Route }) {
  switch (route.segments[0]) {
    case "object":
      return <ObjectView route={route} />;
    case "apply":
      return <ApplyView route={route} />;
    case "managers":
      return <ManagersView route={route} />;
    case "objects":
      return <ObjectsView route={route} />;
    default:
      return null;
  }
}

const THEMES = ["system", "light", "dark"] as const;

function ThemeButton() {
  const [theme, setTheme] = useState(() => THEMES.find((theme) => theme === localStorage.getItem(THEME_KEY)) ?? "system");
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
    localStorage.setItem(THEME_KEY, theme);
  }, [theme]);
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] as (typeof THEMES)[number];
  return (
    <button type="button" className="is-quiet" title={`Switch to the ${next} colours`} onClick={() => setTheme(next)}>
      {`Colours: ${theme}`}
    </button>
  );
}

const root = document.getElementById("root");
if (root) createRoot(root).render(<App />);
