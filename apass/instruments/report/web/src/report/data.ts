// Reads what the page is about: the index and the texts, as the recorder wrote them, and what follows from them.

import { inflateSync } from "fflate";
import { Body, bytes, Data, Failure, Module, Remark, Run, Status, summarize, visible } from "../shared/model";

const WINDOW = 1 << 15; // how far deflate looks back, so how much of a text serves as a dictionary
const MOST_CACHED = 24;

interface Index {
  title: string;
  version: string;
  created: string;
  modules: string[];
  moduleFailures: [number, number][];
  runs: {
    module: number[];
    parent: number[];
    name: number[];
    function: number[];
    start: number[];
    wall: number[];
    busy: number[];
    slices: number[][];
    before: number[];
    after: number[];
    status: number[];
    failure: number[];
    statistics: Record<string, Record<string, number | string>>;
  };
  bodies: {
    run: number[];
    function: number[];
    start: number[];
    wall: number[];
    busy: number[];
    worker: number[];
    status: number[];
  };
  texts: { offset: number[]; base: number[] };
  remarks: [number, number, string, number, number, number, number, string, Record<string, unknown>][];
  provenance?: Record<string, Record<string, number[]>>;
  names: string[];
  failures: [string, string, string[], string][];
  leftOut: Record<string, number>;
}

/** Texts by number, decompressed when they are asked for; the ones asked for last are kept. */
function textReader(blob: string, { offset, base }: Index["texts"]): (index: number) => string {
  const cache = new Map<number, Uint8Array>();
  const decoder = new TextDecoder();
  function read(index: number): Uint8Array {
    const known = cache.get(index);
    if (known) {
      cache.delete(index);
      cache.set(index, known);
      return known;
    }
    const packed = bytes(blob.slice(offset[index], offset[index + 1]));
    const dictionary = base[index] < 0 ? undefined : read(base[index]).slice(-WINDOW);
    const made = inflateSync(packed, dictionary ? { dictionary } : undefined);
    cache.set(index, made);
    if (cache.size > MOST_CACHED) cache.delete(cache.keys().next().value!);
    return made;
  }
  return (index) => (index < 0 ? "" : visible(decoder.decode(read(index))));
}

function makeRuns(index: Index, modules: Module[], failures: Failure[]): Run[] {
  const columns = index.runs;
  const runs: Run[] = columns.module.map((module, id) => ({
    id,
    module: modules[module],
    parent: null,
    children: [],
    depth: 0,
    name: index.names[columns.name[id]],
    func: columns.function[id] < 0 ? null : index.names[columns.function[id]],
    start: columns.start[id],
    wall: columns.wall[id],
    busy: columns.busy[id],
    slices: columns.slices[id],
    waits: [],
    before: columns.before[id],
    after: columns.after[id],
    status: columns.status[id],
    failure: columns.failure[id] < 0 ? null : failures[columns.failure[id]],
    statistics: columns.statistics[id] ?? {},
    bodies: [],
    remarks: [],
  }));
  // A caller stands before what it called, so its depth is known by then.
  for (const run of runs) {
    const above = columns.parent[run.id];
    if (above >= 0) {
      run.parent = runs[above];
      run.depth = run.parent.depth + 1;
      run.parent.children.push(run);
    }
    run.module.runs.push(run);
  }
  return runs;
}

function attachRemarks(index: Index, modules: Module[], runs: Run[]): Remark[] {
  return index.remarks.map(([kind, name, message, pass, func, module, run, place, args]) => {
    const remark: Remark = {
      kind,
      name: index.names[name],
      message,
      pass: index.names[pass],
      func: index.names[func],
      module: module < 0 ? null : modules[module],
      run: run < 0 ? null : runs[run],
      place,
      args,
    };
    remark.module?.remarks.push(remark);
    remark.run?.remarks.push(remark);
    return remark;
  });
}

export function load(index64: string, blob: string): Data {
  const json = new TextDecoder().decode(inflateSync(bytes(index64)));
  const index = JSON.parse(json, (_, value: unknown) => (typeof value === "string" ? visible(value) : value)) as Index;
  const failures = index.failures.map(([kind, message, notes, traceback], id) => ({
    id,
    kind,
    message,
    notes,
    traceback,
  }));
  const modules: Module[] = index.modules.map((name, id) => ({
    id,
    name,
    runs: [],
    status: Status.Unchanged,
    failure: null,
    start: 0,
    wall: 0,
    changed: 0,
    remarks: [],
  }));
  for (const [module, failure] of index.moduleFailures) modules[module].failure = failures[failure];
  for (const [module, table] of Object.entries(index.provenance ?? {})) {
    const histories = Object.entries(table).map(([name, all]): [string, string[]] => [name, all.map((one) => index.names[one])]);
    modules[Number(module)].histories = new Map(histories);
  }
  const runs = makeRuns(index, modules, failures);
  modules.forEach(summarize);
  const columns = index.bodies;
  const bodies: Body[] = columns.run.map((run, id) => ({
    run: runs[run],
    func: index.names[columns.function[id]],
    start: columns.start[id],
    wall: columns.wall[id],
    busy: columns.busy[id],
    worker: columns.worker[id],
    status: columns.status[id],
  }));
  for (const body of bodies) body.run.bodies.push(body);
  const remarks = attachRemarks(index, modules, runs);
  return {
    title: index.title,
    version: index.version,
    created: index.created,
    modules,
    runs,
    bodies,
    remarks,
    failures,
    leftOut: index.leftOut,
    end: runs.reduce((latest, run) => Math.max(latest, run.start + run.wall), 0),
    text: textReader(blob, index.texts),
  };
}
