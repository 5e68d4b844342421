// The way to log in: the session of `holdfast ui`, the certificate of the browser, or a token.

import { Client, type Credentials } from "./api/client.ts";

/** Key of the session of `holdfast ui` in the storage of this tab. */
const SESSION_KEY = "holdfast-session";

/** Returns the prefix of the API's paths: that of the page without `/ui/`. */
export function apiRoot(): string {
  return location.pathname.replace(/\/ui\/?(index\.html)?$/, "");
}

/** Exchanges the one-time code of the URL for a session. The code is removed from the URL first. */
export async function sessionFromCode(): Promise<Credentials | undefined> {
  const code = /^#code=([A-Za-z0-9_-]+)$/.exec(location.hash)?.[1];
  if (code === undefined) {
    const secret = sessionStorage.getItem(SESSION_KEY);
    return secret === null ? undefined : { kind: "session", secret };
  }
  history.replaceState(null, "", location.pathname);
  const response = await fetch(`${apiRoot()}/ui/session`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code }),
    credentials: "omit",
  });
  if (!response.ok) throw new Error("This link was used already, or is too old. Run `holdfast ui` again.");
  const { session } = (await response.json()) as { session: string };
  // The storage ends with the tab.
  sessionStorage.setItem(SESSION_KEY, session);
  return { kind: "session", secret: session };
}

/** Forgets the session. */
export function forgetSession(): void {
  sessionStorage.removeItem(SESSION_KEY);
}

/** User as the server sees it. */
export interface User {
  name: string;
  groups: string[];
}

/** Returns the user of the credentials. */
export async function userOf(client: Client): Promise<User> {
  const review = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
  interface Review {
    status?: { userInfo?: { username?: string; groups?: string[] } };
  }
  const { status } = await client.post<Review>("/apis/authentication.k8s.io/v1/selfsubjectreviews", review);
  return { name: status?.userInfo?.username ?? "", groups: status?.userInfo?.groups ?? [] };
}

/** Returns true if the user sent no credentials that the server accepts. */
export function isAnonymous(user: User): boolean {
  return user.name === "system:anonymous" || user.name === "";
}
