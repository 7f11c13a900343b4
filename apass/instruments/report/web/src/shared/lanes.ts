// What the timeline draws: lanes of bars, worked out once for each way to arrange them.

import { Body, Data, Module, Run } from "./model";

export interface Bar {
  start: number;
  wall: number;
  run: Run;
  body: Body | null;
}

export interface Lane {
  label: string;
  indent: number;
  module: Module | null;
  bars: Bar[]; // by start; none overlaps the next
  height: number;
}

export type Arrangement = "modules" | "workers";

const HEIGHT = 22;
const INNER = 18;

/** One lane for each module, by start; the open one with its nested passes and the tasks that worked on functions. */
export function moduleLanes(data: Data, open: Module | null): Lane[] {
  const modules = data.modules.filter((module) => module.runs.length).sort((a, b) => a.start - b.start);
  return modules.flatMap((module) => {
    const leaves = module.runs.filter((run) => !run.children.length);
    const lanes = pack(leaves.map(barOf));
    if (module !== open) {
      // What ran at the same time is drawn on top of each other, but for the open module.
      return [{ label: module.name, indent: 0, module, bars: lanes.length === 1 ? lanes[0] : leaves.map(barOf).sort(byStart), height: HEIGHT }];
    }
    return openLanes(module);
  });
}

function openLanes(module: Module): Lane[] {
  const made: Lane[] = [];
  const deepest = Math.max(...module.runs.map((run) => run.depth));
  for (let depth = 0; depth <= deepest; depth++) {
    const level = module.runs.filter((run) => run.depth === depth);
    pack(level.map(barOf)).forEach((bars) => {
      const label = made.length ? `depth ${depth}` : module.name;
      made.push({ label, indent: made.length ? 1 : 0, module, bars, height: made.length ? INNER : HEIGHT });
    });
  }
  const workers = new Map<number, Body[]>();
  for (const body of module.runs.flatMap((run) => run.bodies))
    workers.set(body.worker, [...(workers.get(body.worker) ?? []), body]);
  const tasks = [...workers.values()].sort((a, b) => a[0].start - b[0].start);
  tasks.forEach((bodies, at) => {
    for (const bars of pack(bodies.map((body) => ({ start: body.start, wall: body.wall, run: body.run, body }))))
      made.push({ label: `functions, task ${at + 1}`, indent: 1, module, bars, height: INNER });
  });
  return made;
}

/** As few lanes as there were modules at work at once: what ran beside what. */
export function workerLanes(data: Data): Lane[] {
  const modules = data.modules.filter((module) => module.runs.length).sort((a, b) => a.start - b.start);
  const ends: number[] = [];
  const lanes: Lane[] = [];
  for (const module of modules) {
    let lane = ends.findIndex((end) => end <= module.start);
    if (lane < 0) {
      lane = ends.length;
      lanes.push({ label: `slot ${lane + 1}`, indent: 0, module: null, bars: [], height: HEIGHT });
    }
    ends[lane] = module.start + module.wall;
    lanes[lane].bars.push(...module.runs.filter((run) => !run.children.length).map(barOf).sort(byStart));
  }
  return lanes;
}

function barOf(run: Run): Bar {
  return { start: run.start, wall: run.wall, run, body: null };
}

function byStart(a: Bar, b: Bar): number {
  return a.start - b.start;
}

/** Put bars into as few lanes as there are bars at once. */
function pack(bars: Bar[]): Bar[][] {
  const lanes: Bar[][] = [];
  const ends: number[] = [];
  for (const bar of bars.sort(byStart)) {
    let lane = ends.findIndex((end) => end <= bar.start);
    if (lane < 0) {
      lane = lanes.length;
      lanes.push([]);
    }
    lanes[lane].push(bar);
    ends[lane] = bar.start + bar.wall;
  }
  return lanes;
}

/** Return the stretches of a bar in which it held the loop, as start and end in turn. */
export function working({ start, wall, run, body }: Bar): number[] {
  if (body && !body.slices) return [start, start + Math.min(body.busy, wall)];
  const slices = body?.slices ?? run.slices;
  if (!slices.length) return (body ?? run).busy > 0 ? [start, start + wall] : [];
  const made: number[] = [];
  let at = start;
  for (const length of slices) made.push((at += length));
  return made;
}

/** Return the first bar that ends after a time; bars are by start. */
export function firstAfter(bars: Bar[], at: number): number {
  let [low, high] = [0, bars.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (bars[middle].start + bars[middle].wall < at) low = middle + 1;
    else high = middle;
  }
  return low;
}
