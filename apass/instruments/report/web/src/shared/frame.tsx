// What is around the views of every page: the logo, and the help on keys.

export function Logo() {
  return (
    <svg viewBox="0 0 24 24" aria-hidden="true">
      <rect x="2" y="4" width="13" height="4" rx="2" />
      <rect x="6" y="10" width="16" height="4" rx="2" opacity=".7" />
      <rect x="4" y="16" width="10" height="4" rx="2" opacity=".45" />
    </svg>
  );
}

/** What keys do. */
export function KeyTable({ keys }: { keys: [string, string][] }) {
  return (
    <dl class="keytable">
      {keys.map(([pressed, what]) => (
        <div key={pressed}>
          <dt>
            {pressed.split(" ").map((key) => (key === "–" ? " – " : <kbd key={key}>{key}</kbd>))}
          </dt>
          <dd>{what}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Help({ keys, close }: { keys: [string, string][]; close: () => void }) {
  return (
    <div class="veil" onClick={close}>
      <div class="help" role="dialog" aria-label="Keys" onClick={(event) => event.stopPropagation()}>
        <h2>Keys</h2>
        <KeyTable keys={keys} />
        <button onClick={close}>Close</button>
      </div>
    </div>
  );
}

/** Tell whether keys are typed into an element, so that they are no commands. */
export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLSelectElement || (target instanceof HTMLInputElement && target.type !== "checkbox");
}
