// One object: its fields with their owners, its events, its relatives, and its readers and writers.

import { Tab, TabList, TabPanel, TabProvider } from "@ariakit/react";
import { useEffect, useMemo, useSyncExternalStore } from "react";

import type { KubeObject, Resource } from "../api/types.ts";
import { LiveObject, type LiveState } from "../model/liveObject.ts";
import { CORE, findResource, resourceSegments, useConnection } from "../parts/context.ts";
import { type Route, fragmentOf, replaceParameters } from "../route.ts";
import { AccessPanel } from "./AccessPanel.tsx";
import { EventsPanel } from "./EventsPanel.tsx";
import { OwnersPanel } from "./OwnersPanel.tsx";
import { RelatedPanel } from "./RelatedPanel.tsx";

/** Panel of an object. */
interface Panel {
  id: string;
  title: string;
  render(props: PanelProps): React.ReactNode;
}

export interface PanelProps {
  resource: Resource;
  object: KubeObject;
  state: LiveState;
}

const PANELS: Panel[] = [
  { id: "owners", title: "Fields and owners", render: (props) => <OwnersPanel {...props} /> },
  { id: "events", title: "Events", render: (props) => <EventsPanel {...props} /> },
  { id: "related", title: "Related objects", render: (props) => <RelatedPanel {...props} /> },
  { id: "access", title: "Permissions", render: (props) => <AccessPanel {...props} /> },
];

export function ObjectView({ route }: { route: Route }) {
  const { client, resources } = useConnection();
  const [group = CORE, plural = "", place = "-", name = ""] = route.segments.slice(1);
  const resource = findResource(resources, group === CORE ? "" : group, plural);
  const namespace = place === "-" ? "" : place;
  const source = useMemo(
    () => (resource ? new LiveObject(client, resource, namespace, name) : undefined),
    [client, resource, namespace, name],
  );
  if (!resource || !source) return <p className="notice">The server has no resource {plural}.</p>;
  return (
    <LiveView
      key={`${group}/${plural}/${place}/${name}`}
      source={source}
      resource={resource}
      namespace={namespace}
      name={name}
      tab={route.parameters.get("tab") ?? "owners"}
    />
  );
}

interface LiveViewProps {
  source: LiveObject;
  resource: Resource;
  namespace: string;
  name: string;
  tab: string;
}

function LiveView({ source, resource, namespace, name, tab }: LiveViewProps) {
  const state = useSyncExternalStore(source.subscribe, source.snapshot);
  useEffect(() => {
    source.start();
    return () => source.stop();
  }, [source]);
  const { object } = state;
  return (
    <section className="object">
      <nav className="path" aria-label="Place">
        <a href={fragmentOf(["objects", ...resourceSegments(resource)], { namespace })}>{resource.kind}</a>
        {namespace && <span>{namespace}</span>}
      </nav>
      <h1>
        {name}
        <span className={`live ${state.isLive && !state.isDeleted ? "is-on" : ""}`}>
          {state.isDeleted ? "deleted" : state.isLive ? "live" : "not live"}
        </span>
      </h1>
      {state.error && (
        <p className="notice is-error" role="alert">
          {state.error}
        </p>
      )}
      {object && (
        <TabProvider selectedId={tab} setSelectedId={(id) => id && id !== tab && replaceParameters({ tab: id })}>
          <TabList className="tabs" aria-label="Parts of the object">
            {PANELS.map(({ id, title }) => (
              <Tab key={id} id={id} className="tab">
                {title}
              </Tab>
            ))}
          </TabList>
          {PANELS.map(({ id, render }) => (
            <TabPanel key={id} tabId={id} className="panel" unmountOnHide focusable={false}>
              {id === tab && render({ resource, object, state })}
            </TabPanel>
          ))}
        </TabProvider>
      )}
    </section>
  );
}
