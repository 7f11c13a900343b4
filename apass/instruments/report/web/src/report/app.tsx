// The page: what is at its top, the views below it, and the keyboard.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Detail } from "../shared/detail";
import { count, time } from "../shared/format";
import { Help, isTyping, Logo } from "../shared/frame";
import { Data, firstRun, Module, Run, shownRuns, Status } from "../shared/model";
import { Passes } from "../shared/passes";
import { applyTheme, nextTheme, Theme, THEME_SIGNS } from "../shared/theme";
import { Timeline } from "../shared/timeline";
import { Failures, Remarks, Slowest } from "./lists";
import { Modules } from "./modules";
import { initial, keepPlace, remember, shownModules, State, Update, View, VIEWS } from "./store";

const TITLES: Record<View, string> = {
  passes: "Passes",
  timeline: "Timeline",
  slowest: "Slowest",
  remarks: "Remarks",
  failures: "Failures",
};
const KEYS: [string, string][] = [
  ["↑ ↓", "previous, next pass"],
  ["← →", "previous, next module"],
  ["n p", "next, previous change in the text"],
  ["/", "search for modules"],
  ["s", "search in the text"],
  ["c", "only passes that changed something"],
  ["f", "only modules that failed"],
  ["u", "side by side, or one column"],
  ["w", "wrap long lines, or scroll them"],
  ["t", "light, dark, or as the system is"],
  ["1 – 5", "the views"],
  ["?", "this help"],
];

interface AppProps {
  data: Data;
  given?: Theme; // of the page around the frame, which changes it
}

export function App({ data, given }: AppProps) {
  const [state, setState] = useState(() => ({ ...initial(data), ...(given && { theme: given }) }));
  // Keys may come faster than the page is drawn; each goes by what the one before has changed.
  const latest = useRef(state);
  const update: Update = (change) => setState((latest.current = { ...latest.current, ...change }));
  const modules = useMemo(() => shownModules(data, state), [data, state.query, state.sort, state.failedOnly]);
  const runs = useMemo(() => shownRuns(state.module, state.changedOnly), [state.module, state.changedOnly]);
  const select = (module: Module) => update({ module, run: firstRun(module, state.changedOnly) });
  const open = (module: Module, run?: Run | null) =>
    update({ view: "passes", module, run: run ?? firstRun(module, state.changedOnly) });

  useLayoutEffect(() => {
    // Where the pass in view is hidden, the nearest that is shown comes into view.
    if (!state.run || runs.includes(state.run) || !runs.length) return;
    const id = state.run.id;
    update({ run: runs.find((run) => run.id > id && !run.children.length) ?? runs.at(-1)! });
  }, [runs, state.run]);

  useEffect(() => {
    keepPlace(state);
    remember(state);
    applyTheme(state.theme);
  }, [state]);

  useEffect(() => {
    const follow = (event: Event) => update({ theme: (event as CustomEvent<Theme>).detail });
    addEventListener("apass-theme", follow);
    return () => removeEventListener("apass-theme", follow);
  }, []);

  useLayoutEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (isTyping(event.target)) {
        if (event.key === "Escape") (event.target as HTMLElement).blur();
        const isFinding = (event.target as HTMLElement).id === "find" && event.key === "Enter";
        if (!["ArrowUp", "ArrowDown", "Enter"].includes(event.key) || !isSearch(event.target) || isFinding) return;
        (event.target as HTMLElement).blur();
        if (event.key === "Enter" && (event.target as HTMLElement).id === "search" && state.view === "passes" && modules.length) select(modules[0]);
        event.preventDefault();
        return;
      }
      const now = latest.current;
      const act = actions(now, update, { modules, runs: shownRuns(now.module, now.changedOnly), select })[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });

  return (
    <>
      <Top data={data} state={state} update={update} />
      <main class={state.view}>
        {state.view === "passes" && (
          <>
            <Modules data={data} state={state} update={update} shown={modules} select={select} />
            <Passes data={data} state={state} update={update} shown={runs} select={(run) => update({ run })} />
            <Detail data={data} state={state} update={update} />
          </>
        )}
        {state.view === "timeline" && (
          <Timeline data={data} module={state.module} run={state.run} theme={state.theme} open={open} />
        )}
        {state.view === "slowest" && <Slowest data={data} open={open} />}
        {state.view === "remarks" && <Remarks data={data} open={open} />}
        {state.view === "failures" && <Failures data={data} open={open} />}
      </main>
      {state.help && <Help keys={KEYS} close={() => update({ help: false })} />}
    </>
  );
}

function Top({ data, state, update }: { data: Data; state: State; update: Update }) {
  const failed = data.modules.filter((module) => module.status >= Status.Failed).length;
  const badges: Partial<Record<View, number>> = { remarks: data.remarks.length, failures: failed };
  const left = Object.entries(data.leftOut).map(([what, many]) => `${many.toLocaleString("en-US")} ${what}`);
  return (
    <header class="top">
      <h1 title={`apass ${data.version}, ${data.created}`}>
        <Logo />
        <span>{data.title}</span>
      </h1>
      <nav class="views" aria-label="Views">
        {VIEWS.map((view) => (
          <button key={view} aria-current={view === state.view} onClick={() => update({ view })}>
            {TITLES[view]}
            {badges[view] ? <span class={`badge ${view === "failures" ? "bad" : "quiet"}`}>{badges[view]}</span> : null}
          </button>
        ))}
      </nav>
      <p class="summary">
        <span>{count(data.modules.length, "module")}</span>
        <span>{count(data.runs.length, "pass run")}</span>
        <span>{time(data.end)}</span>
        {failed > 0 && <span class="bad">{failed} failed</span>}
      </p>
      {left.length > 0 && (
        <span class="warn" title={`There was too much to keep all of it. Left out: ${left.join(", ")}`}>
          incomplete
        </span>
      )}
      <button
        id="theme"
        class="round"
        onClick={() => update({ theme: nextTheme(state.theme) })}
        title={`Colours: ${state.theme} (t)`}
        aria-label={`Colours: ${state.theme}`}
      >
        {THEME_SIGNS[state.theme]}
      </button>
      <button class="round" onClick={() => update({ help: true })} title="Keys (?)" aria-label="Keys">
        ?
      </button>
    </header>
  );
}

interface Lists {
  modules: Module[];
  runs: Run[];
  select: (module: Module) => void;
}

function actions(state: State, update: Update, { modules, runs, select }: Lists): Record<string, (() => void) | undefined> {
  const move = <T,>(items: T[], at: T | null, by: number): T | undefined => {
    const here = at === null ? -1 : items.indexOf(at);
    return here < 0 ? items[0] : items[Math.max(0, Math.min(items.length - 1, here + by))];
  };
  const toRun = (by: number) => {
    const run = move(runs, state.run, by);
    if (run) update({ run });
  };
  const toModule = (by: number) => {
    const module = move(modules, state.module, by);
    if (module && module !== state.module) select(module);
  };
  const views = Object.fromEntries(VIEWS.map((view, at) => [String(at + 1), () => update({ view })]));
  return {
    ...views,
    ArrowUp: () => toRun(-1),
    ArrowDown: () => toRun(1),
    ArrowLeft: () => toModule(-1),
    ArrowRight: () => toModule(1),
    "/": () => {
      update({ view: state.view === "remarks" ? "remarks" : "passes" });
      // Drawn before this, in a microtask too; what is typed next may come before the next frame.
      queueMicrotask(() => document.querySelector<HTMLInputElement>("input[type=search]")?.focus());
    },
    s: () => document.querySelector<HTMLInputElement>("#find")?.focus(),
    c: () => update({ changedOnly: !state.changedOnly }),
    f: () => update({ failedOnly: !state.failedOnly }),
    u: () => update({ unified: !state.unified }),
    w: () => update({ wrap: !state.wrap }),
    t: () => update({ theme: nextTheme(state.theme) }),
    "?": () => update({ help: !state.help }),
    Escape: () => update({ help: false, query: "", find: "" }),
  };
}

function isSearch(target: EventTarget | null): boolean {
  return target instanceof HTMLInputElement && target.type === "search";
}
