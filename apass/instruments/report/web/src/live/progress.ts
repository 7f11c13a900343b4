// What a job does, from its events: the runs of passes, the bodies of functions, the waits, and the texts.

import { Body, Data, Failure, Module, Remark, REMARK_KINDS, Run, Status, summarize, visible, Wait } from "../shared/model";
import { connection, Job, ServerEvent } from "./api";
import { Texts } from "./texts";

const MOST_BODIES = 20_000; // that are kept; those of the latest passes say most

/** Where a body or a pass of the job runs or waits at the moment. */
export interface Active {
  name: string;
  func: string | null;
  since: number; // microseconds, as all times here
  waits: Wait[]; // of which none has ended
}

export class Progress {
  dropped = 0;
  finished = 0; // passes that contain no others
  private origin = 0; // seconds since 1970
  private end = 0; // microseconds since then, of the last event
  private module!: Module;
  private runs!: Run[];
  private bodies!: Body[];
  private remarks!: Remark[];
  private texts!: Texts;
  private byPath!: Map<string, Run>;
  private open!: Map<string, Body>;
  private slots!: boolean[];
  private leftOut = 0;

  private name = "";
  private job: Job | null = null;

  constructor() {
    this.reset();
  }

  /** Take what is known of the job. */
  describe(job: Job): void {
    this.job = job;
    this.name = visible(job.name);
    this.module.name = this.name;
  }

  /** Forget an attempt that was lost. */
  private reset(): void {
    this.module = {
      id: 0,
      name: this.name,
      runs: [],
      status: Status.Unchanged,
      failure: null,
      start: 0,
      wall: 0,
      changed: 0,
      remarks: [],
    };
    [this.runs, this.bodies, this.remarks] = [[], [], []];
    this.texts = new Texts();
    this.byPath = new Map();
    this.open = new Map();
    this.slots = [];
    this.finished = 0;
    this.origin = 0;
    this.end = 0;
  }

  get hasRuns(): boolean {
    return this.runs.length > 0;
  }

  add(event: ServerEvent): void {
    if (event.kind === "state") this.addState(event);
    else if (event.kind === "text") this.texts.add(event);
    else if (event.kind === "dropped") this.dropped += Number(event.count);
    else if (event.kind === "started") this.start(event);
    else if (event.kind === "finished" || event.kind === "failed") this.finish(event);
    else if (event.kind === "waiting") this.wait(event);
    else if (event.kind === "remark") this.remark(event);
    if (this.origin) this.end = Math.max(this.end, this.micro(event.time));
  }

  private micro(time: number): number {
    return Math.max(0, Math.round((time - this.origin) * 1e6));
  }

  private addState(event: ServerEvent): void {
    // The passes of an attempt that was lost run again. An attempt that the server has ended is not counted.
    if (event.state === "running" && this.runs.length) this.reset();
    if (event.state !== "running") this.closeAll(event.time);
  }

  /** End what has no event of its end: the job was cancelled, or its worker is lost. */
  private closeAll(time: number): void {
    const at = this.micro(time);
    for (const run of this.runs) if (run.status === Status.Running) this.close(run, at, Status.Unfinished);
    for (const body of this.open.values()) this.close(body, at, Status.Unfinished);
    this.open.clear();
    this.slots = [];
  }

  private close(item: Run | Body, at: number, status: Status): void {
    item.wall = Math.max(0, at - item.start);
    item.status = status;
    for (const wait of item.waits ?? []) wait.end ??= at;
    measure(item, at);
  }

  private start(event: ServerEvent): void {
    if (!this.origin) this.origin = event.time;
    const path = String(event.path ?? "");
    if (event.body) {
      this.startBody(event, path);
      return;
    }
    const parent = this.parentOf(path);
    const text = typeof event.text === "number" && this.texts.has(event.text) ? event.text : -1;
    const run: Run = {
      id: this.runs.length,
      module: this.module,
      parent,
      children: [],
      depth: parent ? parent.depth + 1 : 0,
      name: visible(String(event.pass)),
      func: typeof event.function === "string" ? visible(event.function) : null,
      start: this.micro(event.time),
      wall: 0,
      busy: 0,
      slices: [],
      waits: [],
      before: text,
      after: -1,
      status: Status.Running,
      failure: null,
      statistics: {},
      bodies: [],
      remarks: [],
    };
    parent?.children.push(run);
    this.runs.push(run);
    this.module.runs.push(run);
    this.byPath.set(path, run);
  }

  private parentOf(path: string): Run | null {
    // A name may contain a slash, but no slash, digits and a colon.
    const above = path.replace(/\/\d+:(?!.*\/\d+:).*$/s, "");
    if (above === path) return null;
    return this.byPath.get(above) ?? this.byPath.get(above.replace(/@[^@]*$/, "")) ?? null;
  }

  private startBody(event: ServerEvent, path: string): void {
    const run = this.byPath.get(path);
    if (!run) return;
    let slot = this.slots.indexOf(false);
    if (slot < 0) slot = this.slots.length;
    this.slots[slot] = true;
    const body: Body = {
      run,
      func: visible(String(event.function ?? "")),
      start: this.micro(event.time),
      wall: 0,
      busy: 0,
      worker: slot,
      status: Status.Running,
      slices: [],
      waits: [],
    };
    this.open.set(`${path}@${String(event.function)}`, body);
    run.bodies.push(body);
    this.bodies.push(body);
    if (this.bodies.length > MOST_BODIES) this.forgetBodies();
  }

  private forgetBodies(): void {
    const old = new Set(this.bodies.splice(0, MOST_BODIES / 2).filter((body) => body.status !== Status.Running));
    this.leftOut += old.size;
    for (const run of this.runs) if (run.bodies.some((body) => old.has(body))) run.bodies = run.bodies.filter((body) => !old.has(body));
  }

  private finish(event: ServerEvent): void {
    const path = String(event.path ?? "");
    const isFailed = event.kind === "failed";
    const status = !isFailed
      ? event.changed
        ? Status.Changed
        : Status.Unchanged
      : event.error === "cancelled"
        ? Status.Cancelled
        : Status.Failed;
    if (event.body) {
      const key = `${path}@${String(event.function)}`;
      const body = this.open.get(key);
      if (!body) return;
      this.open.delete(key);
      this.slots[body.worker] = false;
      this.close(body, this.micro(event.time), status);
      return;
    }
    const run = this.byPath.get(path);
    if (!run) return;
    this.close(run, this.micro(event.time), status);
    if (typeof event.text === "number" && this.texts.has(event.text)) run.after = event.text;
    if (!run.children.length) this.finished++;
    if (status === Status.Failed) run.failure = failureOf(String(event.error ?? ""), run.id);
  }

  private wait(event: ServerEvent): void {
    const path = String(event.path ?? "");
    const item = event.body ? this.open.get(`${path}@${String(event.function)}`) : this.byPath.get(path);
    if (!item?.waits) return;
    const what = visible(String(event.what));
    if (!event.over) {
      item.waits.push({ what, start: this.micro(event.time), end: null });
      return;
    }
    const wait = item.waits.findLast((one) => one.end === null && one.what === what);
    if (wait) wait.end = this.micro(event.time);
  }

  private remark(event: ServerEvent): void {
    const run = this.byPath.get(String(event.path ?? "")) ?? null;
    const [, kind, name, message] = /^(\w+) ([^:]*): ([^]*)$/.exec(visible(String(event.remark))) ?? [];
    if (!kind) return;
    const remark: Remark = {
      kind: Math.max(0, REMARK_KINDS.indexOf(kind)),
      name,
      message,
      pass: visible(String(event.pass)),
      func: typeof event.function === "string" ? visible(event.function) : "",
      module: this.module,
      run,
      place: "",
      args: {},
    };
    run?.remarks.push(remark);
    this.module.remarks.push(remark);
    this.remarks.push(remark);
  }

  /** Return what the parts of the page show; while the job runs, up to now. */
  data(isRunning: boolean): Data {
    const now = isRunning && this.origin ? Math.max(this.end, this.micro(connection.now())) : this.end;
    for (const run of this.runs)
      if (run.status === Status.Running) {
        run.wall = now - run.start;
        measure(run, now);
      }
    for (const body of this.open.values()) {
      body.wall = now - body.start;
      measure(body, now);
    }
    // The failure of the job is shown with its notes, so that the runs that it ended need not repeat it.
    const failure = this.job?.failure;
    for (const run of this.runs)
      if (failure && run.failure && visible(failure.kind) === run.failure.kind && visible(failure.message) === run.failure.message)
        run.failure = null;
    summarize(this.module);
    return {
      title: this.name,
      version: "",
      created: "",
      modules: [this.module],
      runs: this.runs,
      bodies: this.bodies,
      remarks: this.remarks,
      failures: [],
      leftOut: this.leftOut ? { "function bodies": this.leftOut } : {},
      end: now,
      isLive: true,
      text: (index) => this.texts.read(index),
    };
  }

  /** Return what runs and waits now: function bodies, and passes that neither contain others nor have bodies. */
  active(): Active[] {
    const bodies = [...this.open.values()].map((body) => ({
      name: body.run.name,
      func: body.func,
      since: body.start,
      waits: body.waits!.filter((wait) => wait.end === null),
    }));
    const busy = new Set([...this.open.values()].map((body) => body.run));
    const runs = this.runs.filter(
      (run) => run.status === Status.Running && !busy.has(run) && !run.children.some((child) => child.status === Status.Running),
    );
    return [
      ...runs.map((run) => ({
        name: run.name,
        func: run.func,
        since: run.start,
        waits: run.waits.filter((wait) => wait.end === null),
      })),
      ...bodies,
    ];
  }
}

/** Work out in which stretches something did not wait, and how long that was. */
function measure(item: Run | Body, now: number): void {
  if (!item.waits!.length) {
    item.slices = [];
    item.busy = item.wall;
    return;
  }
  const made: number[] = [];
  let [at, edge, busy] = [item.start, item.start, 0];
  for (const wait of [...item.waits!].sort((a, b) => a.start - b.start)) {
    if (wait.start > at) {
      made.push(at - edge, wait.start - at);
      busy += wait.start - at;
      edge = wait.start;
    }
    at = Math.max(at, wait.end ?? now);
  }
  const end = item.start + item.wall;
  if (end > at) {
    made.push(at - edge, end - at);
    busy += end - at;
  }
  // An empty list would mean that it never waited.
  item.slices = made.length ? made : [0, 0];
  item.busy = busy;
}

function failureOf(text: string, id: number): Failure {
  const [, kind, message] = /^([\w.]+)(?:: ([^]*))?$/.exec(visible(text)) ?? ["", visible(text), ""];
  return { id, kind, message: message ?? "", notes: [], traceback: "" };
}
