// Login by a token.

import { useState } from "react";

import { Client, messageOf } from "../api/client.ts";
import { apiRoot, isAnonymous, userOf } from "../session.ts";

export function Login({ notice, onLogin }: { notice: string; onLogin(client: Client): void }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState(notice);
  const [isBusy, setBusy] = useState(false);
  const submit = async (): Promise<void> => {
    setBusy(true);
    try {
      const client = new Client(apiRoot(), { kind: "token", token: token.trim() });
      const user = await userOf(client);
      if (isAnonymous(user)) throw new Error("The server does not accept the token.");
      onLogin(client);
    } catch (failure) {
      setError(messageOf(failure) === "Unauthorized" ? "The server does not accept the token." : messageOf(failure));
      setBusy(false);
    }
  };
  return (
    <main className="login">
      <h1>Holdfast</h1>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <label className="field">
          <span>Token</span>
          <input
            type="password"
            autoComplete="off"
            autoFocus
            required
            value={token}
            onChange={(event) => setToken(event.target.value)}
          />
        </label>
        <button type="submit" className="is-primary" disabled={isBusy || token.trim() === ""}>
          Log in
        </button>
        {error && (
          <p className="notice is-error" role="alert">
            {error}
          </p>
        )}
      </form>
      <p className="hint">
        The page keeps the token in memory and forgets it when the tab is closed or loaded again. With a kubeconfig, run{" "}
        <code>holdfast ui</code> instead: it opens this page logged in. <code>kubectl create token NAME</code> makes a token of a
        service account.
      </p>
    </main>
  );
}
