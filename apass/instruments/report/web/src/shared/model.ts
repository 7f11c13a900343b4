// What pages show: modules, the runs of passes on them, and what is known of both.

export const enum Status {
  Unchanged = 0,
  Changed = 1,
  Failed = 2,
  Cancelled = 3,
  Unfinished = 4,
  Running = 5, // of a page that shows passes while they run
}

export const STATUS_NAMES = ["unchanged", "changed", "failed", "cancelled", "unfinished", "running"];
export const REMARK_KINDS = ["passed", "missed", "analysis"];

export interface Run {
  id: number;
  module: Module;
  parent: Run | null;
  children: Run[];
  depth: number;
  name: string;
  func: string | null;
  start: number; // microseconds, as all times
  wall: number;
  busy: number;
  slices: number[]; // gaps and lengths in turn; empty where all of it is one
  waits: Wait[]; // known of passes that are shown while they run
  before: number;
  after: number;
  status: Status;
  failure: Failure | null;
  statistics: Record<string, number | string>;
  bodies: Body[];
  remarks: Remark[];
}

export interface Body {
  run: Run;
  func: string;
  start: number;
  wall: number;
  busy: number;
  worker: number;
  status: Status;
  slices?: number[];
  waits?: Wait[];
}

export interface Wait {
  what: string;
  start: number;
  end: number | null; // null while it lasts
}

export interface Module {
  id: number;
  name: string;
  runs: Run[];
  status: Status;
  failure: Failure | null;
  start: number;
  wall: number;
  changed: number;
  remarks: Remark[];
  histories?: Map<string, string[]>; // which passes touched a node, by its name
}

export interface Failure {
  id: number;
  kind: string;
  message: string;
  notes: string[];
  traceback: string;
}

export interface Remark {
  kind: number;
  name: string;
  message: string;
  pass: string;
  func: string;
  module: Module | null;
  run: Run | null;
  place: string;
  args: Record<string, unknown>;
}

export interface Data {
  title: string;
  version: string;
  created: string;
  modules: Module[];
  runs: Run[];
  bodies: Body[];
  remarks: Remark[];
  failures: Failure[];
  leftOut: Record<string, number>;
  end: number;
  isLive?: boolean; // passes still run, or their times come from events: which hold the loop is not known
  text(index: number): string;
}

/** Return a text with escapes instead of control characters and marks that would reverse or hide what follows. */
export function visible(text: string): string {
  return text.replace(/[^\P{Cc}\n\t]|[\p{Cf}\p{Zl}\p{Zp}]/gu, (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`);
}

/** Return the bytes of a text in Base64. */
export function bytes(base64: string): Uint8Array {
  const binary = atob(base64);
  const made = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) made[at] = binary.charCodeAt(at);
  return made;
}

/** What a page shows of a module at the moment, for the parts that pages share. */
export interface Look {
  module: Module | null;
  run: Run | null;
  pane: Pane;
  find: string; // what is looked for in texts; it stays from pass to pass
  changedOnly: boolean;
  unified: boolean;
  wrap: boolean; // long lines go on below; else all lines scroll sideways
}

export type Pane = "diff" | "before" | "after" | "remarks" | "functions";
export type LookUpdate = (change: Partial<Look>) => void;

/** Work out what follows for a module from its runs. */
export function summarize(module: Module): void {
  const outermost = module.runs.filter((run) => run.parent === null);
  module.start = Math.min(...outermost.map((run) => run.start), Infinity);
  const end = Math.max(...outermost.map((run) => run.start + run.wall), 0);
  module.wall = outermost.length ? end - module.start : 0;
  if (!outermost.length) module.start = 0;
  module.changed = module.runs.filter((run) => run.children.length === 0 && run.status === Status.Changed).length;
  const worst = [Status.Failed, Status.Running, Status.Cancelled, Status.Unfinished, Status.Changed];
  const found = worst.find((status) => outermost.some((run) => run.status === status));
  module.status = module.failure ? Status.Failed : (found ?? Status.Unchanged);
  module.failure ??= outermost.find((run) => run.failure)?.failure ?? null;
}

/** Return the run to look at first: the one that failed, else the first that changed something, else the first. */
export function firstRun(module: Module | null, changedOnly = false): Run | null {
  if (!module) return null;
  const innermost = module.runs.filter((run) => run.children.length === 0);
  const failed = innermost.find((run) => run.status === Status.Failed);
  const changed = innermost.find((run) => run.status === Status.Changed);
  return failed ?? changed ?? (changedOnly ? null : (innermost[0] ?? module.runs[0] ?? null));
}

/** Return the runs of a module to list: with `changedOnly` those that did something, and those that called them. */
export function shownRuns(module: Module | null, changedOnly: boolean): Run[] {
  if (!module) return [];
  if (!changedOnly) return module.runs;
  const kept = new Set<Run>();
  for (const run of module.runs)
    if (run.status !== Status.Unchanged) for (let one: Run | null = run; one; one = one.parent) kept.add(one);
  return module.runs.filter((run) => kept.has(run));
}
