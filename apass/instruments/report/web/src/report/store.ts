// What is shown at the moment: one value, which components are given, and which the address of the page keeps.

import { Data, firstRun, Look, Module, Status } from "../shared/model";
import { Theme } from "../shared/theme";

export type View = "passes" | "timeline" | "slowest" | "remarks" | "failures";
export const VIEWS: View[] = ["passes", "timeline", "slowest", "remarks", "failures"];
export const SORTS = ["name", "time", "changes", "start", "failures first"] as const;
export type Sort = (typeof SORTS)[number];

export interface State extends Look {
  view: View;
  query: string;
  sort: Sort;
  failedOnly: boolean;
  theme: Theme;
  help: boolean;
}

export type Update = (change: Partial<State>) => void;

const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
const KEY = "apass-report";

export function remembered(): Partial<State> {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "{}") as Partial<State>;
  } catch {
    return {};
  }
}

export function remember({ theme, unified, wrap, changedOnly }: State): void {
  try {
    localStorage.setItem(KEY, JSON.stringify({ theme, unified, wrap, changedOnly }));
  } catch {
    // Where the browser keeps nothing, nothing is kept.
  }
}

export function initial(data: Data): State {
  const state: State = {
    view: "passes",
    module: null,
    run: null,
    pane: "diff",
    query: "",
    find: "",
    sort: "name",
    failedOnly: false,
    changedOnly: false,
    unified: innerWidth < 1000,
    wrap: true,
    theme: "auto",
    help: false,
    ...remembered(),
  };
  const all = shownModules(data, state);
  state.module = all.find((module) => module.status === Status.Failed) ?? all[0] ?? null;
  const place = new URLSearchParams(location.hash.slice(1));
  const view = place.get("view") as View;
  if (VIEWS.includes(view)) state.view = view;
  const module = data.modules.find((one) => one.name === place.get("module"));
  if (module) state.module = module;
  state.run = state.module?.runs[Number(place.get("pass") ?? -1)] ?? firstRun(state.module, state.changedOnly);
  return state;
}

export function keepPlace(state: State): void {
  const place = new URLSearchParams({ view: state.view });
  if (state.module) place.set("module", state.module.name);
  if (state.module && state.run) place.set("pass", String(state.module.runs.indexOf(state.run)));
  try {
    history.replaceState(null, "", `#${place}`);
  } catch {
    // In the frame of a notebook, the page has no address of its own.
  }
}

export function shownModules(data: Data, state: State): Module[] {
  const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = data.modules.filter(
    (module) => (!state.failedOnly || module.status >= Status.Failed) && words.every((word) => matches(module, word)),
  );
  return found.sort(ORDERS[state.sort]);
}

function matches(module: Module, word: string): boolean {
  if (module.name.toLowerCase().includes(word)) return true;
  if (module.failure && `${module.failure.kind} ${module.failure.message}`.toLowerCase().includes(word)) return true;
  return module.runs.some((run) => run.status !== Status.Unchanged && run.name.toLowerCase().includes(word));
}

const byName = (a: Module, b: Module) => collator.compare(a.name, b.name);
const ORDERS: Record<Sort, (a: Module, b: Module) => number> = {
  name: byName,
  time: (a, b) => b.wall - a.wall || byName(a, b),
  changes: (a, b) => b.changed - a.changed || byName(a, b),
  start: (a, b) => a.start - b.start || byName(a, b),
  "failures first": (a, b) => Number(b.status >= Status.Failed) - Number(a.status >= Status.Failed) || byName(a, b),
};
