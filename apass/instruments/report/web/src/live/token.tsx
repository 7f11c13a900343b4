// Where the token of the server is entered.

import { useState } from "preact/hooks";
import { connection } from "./api";
import { Dialog } from "./dialog";
import { isTokenWanted, link, linkProblem, useCell } from "./store";

export function TokenDialog({ connect }: { connect: () => void }) {
  const [token, setToken] = useState(connection.token);
  const problem = useCell(linkProblem);
  const state = useCell(link);
  const close = () => isTokenWanted.set(false);
  const submit = (event: Event) => {
    event.preventDefault();
    connection.keep(token.trim());
    close();
    connect();
  };
  const forget = () => {
    connection.keep("");
    close();
    connect();
  };
  return (
    <Dialog title="Token" class="small" close={close}>
      <form onSubmit={submit}>
        {state === "locked" && (
          <p class="message bad" role="alert">
            {problem}
          </p>
        )}
        <label class="field">
          <span>Token of the server</span>
          <input
            type="password"
            autocomplete="off"
            data-first
            spellcheck={false}
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
            aria-describedby="token-hint"
          />
        </label>
        <p id="token-hint" class="hint">
          It is kept until this tab is closed, and sent to this server only.
        </p>
        <footer class="actions">
          {connection.token && (
            <button type="button" class="secondary" onClick={forget}>
              Forget it
            </button>
          )}
          <span class="space" />
          <button type="button" class="secondary" onClick={close}>
            Cancel
          </button>
          <button type="submit" class="primary">
            Use
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
