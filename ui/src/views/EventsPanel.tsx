// Events about an object.

import { useEffect, useState } from "react";

import { messageOf } from "../api/client.ts";
import type { KubeObject } from "../api/types.ts";
import { age } from "../model/table.ts";
import { useConnection, useNow } from "../parts/context.ts";
import type { PanelProps } from "./ObjectView.tsx";

interface Event extends KubeObject {
  type?: string;
  reason?: string;
  message?: string;
  count?: number;
  lastTimestamp?: string | null;
  eventTime?: string | null;
  reportingComponent?: string;
  source?: { component?: string };
}

/** Maximum number of events that are requested. */
const MAX_EVENTS = 500;

export function EventsPanel({ object, state }: PanelProps) {
  const { client } = useConnection();
  const [events, setEvents] = useState<Event[]>();
  const [error, setError] = useState("");
  const now = useNow(1_000);
  const { uid, name, namespace } = object.metadata;
  useEffect(() => {
    const abort = new AbortController();
    const load = async (): Promise<void> => {
      // Events of cluster-scoped objects are in the namespace `default`.
      const within = `/api/v1/namespaces/${encodeURIComponent(namespace ?? "default")}/events`;
      const query = new URLSearchParams({
        fieldSelector: `involvedObject.name=${name},involvedObject.uid=${uid}`,
        limit: String(MAX_EVENTS),
      });
      try {
        const list = await client.json<{ items: Event[] }>(`${within}?${query}`, { signal: abort.signal });
        setEvents(list.items.sort((left, right) => timeOf(right).localeCompare(timeOf(left))));
        setError("");
      } catch (failure) {
        if (!abort.signal.aborted) setError(messageOf(failure));
      }
    };
    void load();
    const timer = setInterval(() => void load(), 10_000);
    return () => {
      clearInterval(timer);
      abort.abort();
    };
  }, [client, uid, name, namespace, state.isDeleted]);
  if (error) {
    return (
      <p className="notice is-error" role="alert">
        {error}
      </p>
    );
  }
  if (!events) return <p className="notice">Loading…</p>;
  if (events.length === 0) return <p className="notice">The server has no events about this object.</p>;
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Events">
      <table>
        <thead>
          <tr>
            <th>Last seen</th>
            <th>Type</th>
            <th>Reason</th>
            <th>Message</th>
            <th>From</th>
          </tr>
        </thead>
        <tbody>
          {events.map((event) => (
            <tr key={event.metadata.uid ?? event.metadata.name}>
              <td>
                {age(timeOf(event), now)}
                {event.count && event.count > 1 ? ` (${event.count} times)` : ""}
              </td>
              <td>{event.type}</td>
              <td>{event.reason}</td>
              <td>{event.message}</td>
              <td>{event.reportingComponent || event.source?.component}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function timeOf(event: Event): string {
  return event.lastTimestamp || event.eventTime || event.metadata.creationTimestamp || "";
}
