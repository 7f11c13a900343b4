// One job: its state and progress, what passes did, and what can be done with it.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Detail } from "../shared/detail";
import { count } from "../shared/format";
import { Data, Look, LookUpdate, Run, shownRuns, Status, visible } from "../shared/model";
import { Passes } from "../shared/passes";
import { Tabs } from "../shared/tabs";
import { Timeline } from "../shared/timeline";
import { callJson, connection, follow, hasEnded, Job, messageOf, Problem, ServerEvent, whileVisible } from "./api";
import { Details, Failure } from "./details";
import { Dialog } from "./dialog";
import { ago, date, seconds, size } from "./format";
import { pipelineName, useTicks } from "./joblist";
import { Now } from "./now";
import { leavesOf, Plan } from "./plan";
import { Active, Progress } from "./progress";
import { ReportFrame } from "./reportframe";
import { announce, cancelJob, download, isOlder, jobs, removeJob, retryJob, Settings, useCell } from "./store";

interface Props {
  id: string;
  settings: Settings;
  update: (change: Partial<Settings>) => void;
  open: (id: string | null) => void;
}

type Tab = "passes" | "timeline" | "report" | "details";

const DRAW = 150; // milliseconds between two looks at new events
const TICK = matchMedia("(prefers-reduced-motion: reduce)").matches ? 1000 : 250;

export function JobView({ id, settings, update, open }: Props) {
  const { job, error, progress, data } = useJob(id);
  const [tab, setTab] = useState<Tab | null>(null);
  const [look, setLook] = useState<Partial<Look>>({ pane: "diff", find: "" });
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    // In a narrow window the list has gone, and with it what had the focus.
    if (job && document.activeElement === document.body) heading.current?.focus({ preventScroll: true });
  }, [job === null]);

  if (!job || !data)
    return (
      <section class="jobview" aria-label="Job">
        <BackLink open={open} />
        <p class={`empty ${error ? "bad" : ""}`}>{error || "Loading…"}</p>
      </section>
    );
  const tabs: [Tab, string][] = [
    ["passes", data.runs.length ? `Passes ${data.runs.filter((run) => !run.children.length).length}` : "Passes"],
    ["timeline", "Timeline"],
  ];
  if (job.links.report !== null) tabs.push(["report", "Report"]);
  tabs.push(["details", "Details"]);
  const usual: Tab = !data.runs.length && hasEnded(job) ? (job.links.report !== null ? "report" : "details") : "passes";
  const current = tabs.some(([one]) => one === tab) ? tab! : usual;
  const change: LookUpdate = ({ unified, wrap, changedOnly, ...rest }) => {
    setLook((before) => ({ ...before, ...rest }));
    const kept = Object.fromEntries(Object.entries({ unified, wrap, changedOnly }).filter(([, value]) => value !== undefined));
    if (Object.keys(kept).length) update(kept);
  };
  return (
    <section class="jobview" aria-labelledby="job-name">
      <BackLink open={open} />
      <header class="job-head">
        <div class="title">
          <h2 id="job-name" ref={heading} tabIndex={-1}>
            <bdi>{visible(job.name)}</bdi>
          </h2>
          <span class={`state ${job.state}`}>{job.state}</span>
        </div>
        <Actions job={job} open={open} />
        <Facts job={job} />
      </header>
      {error && (
        <p class="message bad" role="alert">
          {error}
        </p>
      )}
      <Bar job={job} progress={progress} />
      {job.failure && <Failure failure={job.failure} />}
      <div class="panes">
        <Tabs tabs={tabs} current={current} label="Views of the job" select={setTab} />
      </div>
      {current === "passes" && <PassView job={job} data={data} look={look} settings={settings} change={change} />}
      {current === "timeline" && (
        <TimelineView job={job} data={data} progress={progress} theme={settings.theme} look={look} change={change} show={() => setTab("passes")} />
      )}
      {current === "report" && <ReportFrame job={job} theme={settings.theme} />}
      {current === "details" && <Details job={job} />}
    </section>
  );
}

interface Followed {
  job: Job | null;
  error: string;
  progress: Progress;
  data: Data | null;
}

/** Follow a job: its record, and its events as they happen. */
function useJob(id: string): Followed {
  const [job, setJob] = useState<Job | null>(null);
  const [error, setError] = useState("");
  const [data, setData] = useState<Data | null>(null);
  const progress = useMemo(() => new Progress(), [id]);
  const latest = useRef<Job | null>(null);
  const changed = useCell(jobs.changed);
  const removed = useCell(jobs.removed);

  const take = (next: Job) => {
    const before = latest.current;
    // Two answers may arrive in the other order.
    if (isOlder(next, before)) return;
    latest.current = next;
    progress.describe(next);
    setJob(next);
    setError("");
    if (before && before.state !== next.state) announce(`${next.name}: ${next.state}`);
  };
  useEffect(() => {
    if (changed?.id === id) take(changed);
  }, [changed]);
  useEffect(() => {
    if (removed === id) setError("This job was removed.");
  }, [removed]);

  useEffect(() => {
    const position = { last: "" };
    let [isOver, timer] = [false, undefined as ReturnType<typeof setTimeout> | undefined];
    const draw = () => {
      timer = undefined;
      setData(progress.data(!isOver));
    };
    const run = async (signal: AbortSignal) => {
      const read = async () => {
        try {
          take(await callJson<Job>(`v1/jobs/${id}`, { signal }));
        } catch (raised) {
          if (!signal.aborted && raised instanceof Problem) setError(messageOf(raised));
        }
      };
      const onEvent = (event: ServerEvent) => {
        progress.add(event);
        if (event.kind === "state") {
          isOver = ["done", "failed", "cancelled"].includes(String(event.state));
          void read();
        }
        timer ??= setTimeout(draw, DRAW);
      };
      try {
        // A server that was started again may not know the job any more, or have finished it.
        await follow(`v1/jobs/${id}/events`, { signal, position, onOpen: () => void read(), onEvent, isOver: () => isOver });
      } catch (raised) {
        setError(messageOf(raised));
      }
    };
    draw();
    const stop = whileVisible((signal) => void run(signal));
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [id]);

  const isRunning = job?.state === "running";
  useEffect(() => {
    if (!isRunning) return;
    const timer = setInterval(() => setData(progress.data(true)), TICK);
    return () => clearInterval(timer);
  }, [isRunning, progress]);
  return { job, error, progress, data };
}

function BackLink({ open }: { open: (id: string | null) => void }) {
  const back = (event: Event) => {
    event.preventDefault();
    open(null);
  };
  return (
    <a href="#" class="back" onClick={back}>
      ← Jobs
    </a>
  );
}

function Facts({ job }: { job: Job }) {
  useTicks(hasEnded(job) ? 20_000 : 1000);
  const ran = job.started === null ? null : (job.finished ?? connection.now()) - job.started;
  const waited = (job.started ?? job.finished ?? connection.now()) - job.created;
  const sizes = [size(job.model.size), job.result && size(job.result.size)].filter(Boolean).join(" → ");
  const nodes = job.summary && job.summary.before !== null && job.summary.after !== null ? [job.summary.before, job.summary.after] : null;
  return (
    <dl class="facts">
      <Fact name="pipeline" value={pipelineName(job)} isLong />
      <Fact name="size" value={sizes} />
      {nodes && <Fact name="nodes" value={nodes.map((one) => one.toLocaleString("en-US")).join(" → ")} />}
      <Fact name="created" value={ago(job.created)} title={date(job.created)} />
      {job.state === "queued" ? <Fact name="waits for" value={seconds(waited)} /> : <Fact name="waited" value={seconds(waited)} />}
      {ran !== null && job.state !== "queued" && <Fact name={hasEnded(job) ? "ran for" : "runs for"} value={seconds(ran)} />}
      {job.deadline !== null && !hasEnded(job) && <Fact name="deadline in" value={seconds(Math.max(0, job.deadline - connection.now()))} />}
      {job.attempts > 1 && <Fact name="attempt" value={String(job.attempts)} />}
    </dl>
  );
}

function Fact({ name, value, title, isLong }: { name: string; value: string; title?: string; isLong?: boolean }) {
  return (
    <div class={isLong ? "long" : ""}>
      <dt>{name}</dt>
      <dd title={title ?? (isLong ? value : undefined)}>{value}</dd>
    </div>
  );
}

function Actions({ job, open }: { job: Job; open: (id: string | null) => void }) {
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [asks, setAsks] = useState(false);
  const scopes = useCell(jobs.status)?.scopes ?? ["admin"];
  const mayChange = scopes.includes("submit") || scopes.includes("admin");
  const act = async (what: () => Promise<unknown>) => {
    setBusy(true);
    setError("");
    try {
      await what();
    } catch (raised) {
      setError(messageOf(raised));
    }
    setBusy(false);
  };
  const suffix = job.result_kind.startsWith(".") ? job.result_kind : "";
  const stem = job.name.replace(/\.[^.]*$/, "") || "model";
  return (
    <div class="actions">
      {job.links.result !== null && (
        <button class="primary" disabled={isBusy} onClick={() => act(() => download(`v1/jobs/${job.id}/result`, `${stem}${suffix}`))}>
          Result
        </button>
      )}
      {mayChange && !hasEnded(job) && (
        <button class="secondary" disabled={isBusy} onClick={() => act(() => cancelJob(job))}>
          Cancel
        </button>
      )}
      {mayChange && hasEnded(job) && job.links.model !== null && (
        <button class="secondary" disabled={isBusy} onClick={() => act(async () => open((await retryJob(job)).id))}>
          Retry
        </button>
      )}
      {mayChange && hasEnded(job) && (
        <button class="secondary" disabled={isBusy} onClick={() => setAsks(true)}>
          Remove
        </button>
      )}
      {error && (
        <span class="bad" role="alert">
          {error}
        </span>
      )}
      {asks && (
        <Dialog title="Remove the job?" class="small" close={() => setAsks(false)}>
          <p>Its model, its result and its report are deleted.</p>
          <footer class="actions">
            <span class="space" />
            <button class="secondary" data-first onClick={() => setAsks(false)}>
              Keep
            </button>
            <button
              class="primary danger"
              onClick={() => {
                setAsks(false);
                void act(async () => {
                  await removeJob(job);
                  open(null);
                });
              }}
            >
              Remove
            </button>
          </footer>
        </Dialog>
      )}
    </div>
  );
}

/** How far the passes are, as far as the plan of the pipeline lets one know. */
function Bar({ job, progress }: { job: Job; progress: Progress }) {
  const [planned, setPlanned] = useState<number | null>(null);
  const isActive = !hasEnded(job);
  useEffect(() => {
    // A module of the program that runs the server has no suffix.
    if (!isActive || !job.kind.startsWith(".")) return;
    const { opt_level, required, disabled, config } = job.options;
    const body = { pipeline: job.pipeline, suffix: job.kind, opt_level, required, disabled, config };
    const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
    callJson<Plan>("v1/plan", init).then(
      (answer) => setPlanned(leavesOf(answer.plan)),
      () => setPlanned(null), // the number of passes is then unknown
    );
  }, [job.id]);
  if (!isActive) return null;
  const done = progress.finished;
  const total = planned === null ? null : Math.max(planned, done + Number(job.state === "running"));
  const active = progress.active();
  const text =
    job.state === "queued"
      ? job.attempts
        ? `Attempt ${job.attempts} lost its worker or its server; the job waits for another`
        : "The job waits for a worker"
      : total === null
        ? `${passes(done)} finished`
        : `${done} of about ${passes(total)} finished`;
  return (
    <div class="bar-row">
      <div
        class={`progress ${total === null || job.state === "queued" ? "unknown" : ""}`}
        role="progressbar"
        aria-label="Passes"
        aria-valuemin={0}
        aria-valuemax={total ?? undefined}
        aria-valuenow={total === null ? undefined : done}
        aria-valuetext={text}
      >
        <i style={{ width: `${total ? (100 * done) / total : 0}%` }} />
      </div>
      <p>
        {text}
        {active.length > 0 && `, ${activityOf(active)}`}
      </p>
    </div>
  );
}

function passes(value: number): string {
  return `${value.toLocaleString("en-US")} pass${value === 1 ? "" : "es"}`;
}

/** Return in words what runs and waits. */
function activityOf(active: Active[]): string {
  const names = new Set(active.map((one) => one.name));
  const waits = active.flatMap((one) => one.waits);
  const whats = new Set(waits.map((wait) => wait.what));
  const first = active[0].name;
  const runs =
    active.length === 1
      ? `${first} runs`
      : names.size === 1
        ? `${first} runs on ${count(active.length, "function")}`
        : `${first} and ${active.length - 1} more run`;
  if (!waits.length) return runs;
  const goal = whats.size === 1 ? ` for ${waits[0].what}` : "";
  return active.length === 1 ? `${runs}, waiting${goal}` : `${runs}, ${waits.length === active.length ? "all" : waits.length} of them wait${goal}`;
}

interface ViewProps {
  job: Job;
  data: Data;
  look: Partial<Look>;
  change: LookUpdate;
}

function lookOf(data: Data, look: Partial<Look>, settings: Settings, isNarrow: boolean): Look {
  const module = data.modules[0];
  const runs = shownRuns(module, settings.changedOnly);
  // A run of an attempt that was lost is not in the list any more.
  const chosen = look.run && module.runs.includes(look.run) ? look.run : null;
  return {
    pane: "diff",
    find: "",
    ...look,
    module,
    run: chosen ?? latestRun(runs),
    changedOnly: settings.changedOnly,
    unified: settings.unified || isNarrow,
    wrap: settings.wrap,
  };
}

/** Return the run to look at while none is chosen: the one that failed, the last that changed something, or the last. */
function latestRun(runs: Run[]): Run | null {
  const leaves = runs.filter((run) => !run.children.length);
  return leaves.find((run) => run.status === Status.Failed) ?? leaves.findLast((run) => run.status === Status.Changed) ?? leaves.at(-1) ?? null;
}

function PassView({ job, data, look, settings, change }: ViewProps & { settings: Settings }) {
  const state = lookOf(data, look, settings, useNarrow());
  const shown = shownRuns(state.module, state.changedOnly);
  const box = useRef<HTMLDivElement>(null);
  const moved = useRef(false);
  useLayoutEffect(() => {
    // The row with the focus may have been taken out of the page while scrolling.
    if (moved.current) box.current?.querySelector<HTMLElement>(".row.active")?.focus();
    moved.current = false;
  });
  if (!data.runs.length) return <p class="empty">{nothingOf(job)}</p>;
  const move = (event: KeyboardEvent) => {
    const by = { ArrowUp: -1, ArrowDown: 1, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined || !(event.target as HTMLElement).closest(".row")) return;
    event.preventDefault();
    const here = state.run ? shown.indexOf(state.run) : -1;
    const next = shown[Math.max(0, Math.min(shown.length - 1, here + by))];
    moved.current = true;
    change({ run: next });
  };
  return (
    <div class="passview" ref={box} onKeyDown={move}>
      <Passes data={data} state={state} update={change} shown={shown} select={(run) => change({ run })} />
      <Detail data={data} state={state} update={change} />
    </div>
  );
}

/** Return whether there is no room for two columns of text. */
function useNarrow(): boolean {
  const [media] = useState(() => matchMedia("(max-width: 600px)"));
  const [isNarrow, setNarrow] = useState(media.matches);
  useEffect(() => {
    const look = () => setNarrow(media.matches);
    media.addEventListener("change", look);
    return () => media.removeEventListener("change", look);
  }, [media]);
  return isNarrow;
}

function nothingOf(job: Job): string {
  if (job.state === "queued") return "The passes of a job are shown here as soon as it runs.";
  if (job.state === "running") return "The worker reads the model.";
  if (job.reused) return "No pass ran: the result is that of an equal job, which was done before.";
  if (job.state === "cancelled" && job.started === null) return "The job was cancelled before it ran.";
  return job.links.report === null ? "No pass ran, or the events of the job have expired." : "The report shows the passes.";
}

interface TimelineProps extends ViewProps {
  progress: Progress;
  theme: string;
  show: () => void;
}

function TimelineView({ job, data, progress, theme, look, change, show }: TimelineProps) {
  if (!data.runs.length) return <p class="empty">{nothingOf(job)}</p>;
  const open = (run?: Run | null) => {
    if (!run) return;
    change({ run });
    show();
  };
  return (
    <div class="timeview">
      <Timeline data={data} module={data.modules[0]} run={look.run ?? null} theme={theme} open={(_, run) => open(run)} />
      {job.state === "running" && <Now progress={progress} end={data.end} hasFunctions={job.options.functions} />}
    </div>
  );
}
