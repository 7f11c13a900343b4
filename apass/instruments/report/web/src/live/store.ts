// The jobs in the list, the state of the connection, and what is kept between visits.

import { useEffect, useState } from "preact/hooks";
import { Theme } from "../shared/theme";
import { call, callJson, connection, follow, hasEnded, Job, JobState, messageOf, Problem, ServerEvent, STATES, Unreachable } from "./api";

/** A value that components follow. */
export class Cell<T> {
  private readonly listeners = new Set<(value: T) => void>();

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set(value: T): void {
    if (value === this.current) return;
    this.current = value;
    for (const listener of [...this.listeners]) listener(value);
  }

  listen(listener: (value: T) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

export function useCell<T>(cell: Cell<T>): T {
  const [value, setValue] = useState(cell.value);
  useEffect(() => {
    setValue(cell.value);
    return cell.listen(setValue);
  }, [cell]);
  return value;
}

export type Link = "connecting" | "live" | "lost" | "locked";

export const link = new Cell<Link>("connecting");
export const linkProblem = new Cell("");
export const isTokenWanted = new Cell(false);

connection.onAnswer = () => link.set("live");
connection.onLost = (error) => {
  linkProblem.set(messageOf(error));
  link.set("lost");
};
connection.onLocked = (problem) => {
  linkProblem.set(problem.message);
  link.set("locked");
  isTokenWanted.set(true);
};

/** What a screen reader reads out, and what is shown for a moment. */
export const announcement = new Cell("");

export function announce(text: string): void {
  // The same words twice are read out twice only if something differs.
  announcement.set(announcement.value === text ? `${text}\u00a0` : text);
}

export interface Query {
  text: string;
  states: ReadonlySet<JobState>;
}

export interface ServerStatus {
  version: string;
  accepts: boolean;
  tenant: string;
  scopes: string[];
  jobs: Partial<Record<JobState, number>>;
  limits: { model_bytes: number | null; max_deadline: number | null };
  suffixes: string[];
}

export interface Listing {
  jobs: Job[]; // the latest first
  next: string | null;
  isLoading: boolean;
  hasLoaded: boolean;
  error: string;
}

const PAGE = 50;
const MOST = 200; // jobs in an answer
const SOON = 400; // milliseconds between a change and a look at the numbers

class Jobs {
  readonly listing = new Cell<Listing>({ jobs: [], next: null, isLoading: false, hasLoaded: false, error: "" });
  readonly status = new Cell<ServerStatus | null>(null);
  readonly changed = new Cell<Job | null>(null);
  readonly removed = new Cell("");
  private query: Query = { text: "", states: new Set() };
  private readonly recent = new Map<string, Job>();
  private request = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** Forget all jobs: another token may show others. */
  reset(): void {
    this.request++;
    this.listing.set({ jobs: [], next: null, isLoading: false, hasLoaded: false, error: "" });
    this.status.set(null);
    this.changed.set(null);
  }

  /** Show the jobs of a query. */
  search(query: Query): Promise<void> {
    this.query = query;
    return this.load(PAGE);
  }

  /** Read the jobs that are shown again. */
  reload(): Promise<void> {
    void this.readStatus();
    return this.load(Math.min(MOST, Math.max(PAGE, this.listing.value.jobs.length)));
  }

  /** Show the next page too. */
  async more(): Promise<void> {
    const { jobs, next, isLoading } = this.listing.value;
    if (next === null || isLoading) return;
    const request = ++this.request;
    this.change({ isLoading: true });
    try {
      const page = await this.read(PAGE, next);
      if (request === this.request) this.change({ jobs: [...jobs, ...page.jobs], next: page.next, isLoading: false, error: "" });
    } catch (error) {
      if (request === this.request) this.change({ isLoading: false, error: messageOf(error) });
    }
  }

  private async load(limit: number): Promise<void> {
    const request = ++this.request;
    this.change({ isLoading: true });
    try {
      this.recent.clear();
      const page = await this.read(limit, null);
      if (request !== this.request) return;
      this.change({ ...page, isLoading: false, hasLoaded: true, error: "" });
      // The answer may be older than an event that came before it.
      const read = new Map(page.jobs.map((job) => [job.id, job]));
      for (const job of [...this.recent.values()]) if (!isOlder(job, read.get(job.id))) this.apply(job);
    } catch (error) {
      const isShown = !(error instanceof Unreachable) && !(error instanceof Problem && error.status === 401);
      if (request === this.request) this.change({ isLoading: false, error: isShown ? messageOf(error) : "" });
    }
  }

  private read(limit: number, before: string | null): Promise<{ jobs: Job[]; next: string | null }> {
    const query = new URLSearchParams({ limit: String(limit) });
    if (before !== null) query.set("before", before);
    if (this.query.text) query.set("q", this.query.text);
    if (this.query.states.size) query.set("state", [...this.query.states].join(","));
    return callJson(`v1/jobs?${query}`);
  }

  private change(change: Partial<Listing>): void {
    this.listing.set({ ...this.listing.value, ...change });
  }

  /** Show the new state of a job. */
  apply(job: Job): void {
    const { jobs, hasLoaded, next, isLoading } = this.listing.value;
    const at = jobs.findIndex((one) => one.id === job.id);
    // The answer to a request may come after an event that happened later.
    if (isOlder(job, jobs[at])) return;
    if (isLoading) this.recent.set(job.id, job);
    this.changed.set(job);
    this.countSoon();
    if (!hasLoaded) return;
    const isShown = this.matches(job);
    if (at >= 0) this.change({ jobs: isShown ? jobs.with(at, job) : jobs.toSpliced(at, 1) });
    else if (isShown) {
      // Ids increase with time. What is beyond the last page that was read comes with its page.
      const place = jobs.findIndex((one) => one.id < job.id);
      if (place >= 0) this.change({ jobs: jobs.toSpliced(place, 0, job) });
      else if (next === null) this.change({ jobs: [...jobs, job] });
    }
  }

  forget(id: string): void {
    this.change({ jobs: this.listing.value.jobs.filter((job) => job.id !== id) });
    this.removed.set(id);
    this.countSoon();
  }

  private matches(job: Job): boolean {
    const text = this.query.text.toLowerCase();
    const isFound = !text || [job.name, job.pipeline].some((one) => one.toLowerCase().includes(text)) || job.id.startsWith(text);
    return isFound && (!this.query.states.size || this.query.states.has(job.state));
  }

  private countSoon(): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      void this.readStatus();
    }, SOON);
  }

  private async readStatus(): Promise<void> {
    try {
      this.status.set(await callJson<ServerStatus>("v1/status"));
    } catch {
      // The numbers stay as they were; the connection shows what is wrong.
    }
  }

  /** Follow the jobs of the tenant until `signal` aborts. */
  async watch(signal: AbortSignal): Promise<void> {
    try {
      await follow("v1/events", {
        signal,
        // Events before the connection are missing, so all is read again.
        onOpen: () => void this.reload(),
        onEvent: (event: ServerEvent) => {
          if (event.kind === "dropped") void this.reload();
          else if (event.job) this.apply(event.job as Job);
        },
      });
    } catch (error) {
      this.change({ error: messageOf(error) });
    }
  }
}

/** Return whether a job is what was known of it before `other`. */
export function isOlder(job: Job, other: Job | null | undefined): boolean {
  return other != null && ((job.started ?? 0) < (other.started ?? 0) || (hasEnded(other) && !hasEnded(job)));
}

export const jobs = new Jobs();

export async function cancelJob(job: Job): Promise<void> {
  const answer = await callJson<Job>(`v1/jobs/${job.id}`, { method: "DELETE" });
  jobs.apply(answer);
  announce(hasEnded(answer) ? `${answer.name} is cancelled` : `${answer.name} is being cancelled`);
}

export async function retryJob(job: Job): Promise<Job> {
  const answer = await callJson<Job>(`v1/jobs/${job.id}/retry`, { method: "POST" });
  jobs.apply(answer);
  announce(`${answer.name} was submitted again`);
  return answer;
}

export async function removeJob(job: Job): Promise<void> {
  await call(`v1/jobs/${job.id}?remove=true`, { method: "DELETE" });
  jobs.forget(job.id);
  announce(`${job.name} was removed`);
}

/** Save what a path returns as a file. A link would not send the token. */
export async function download(path: string, name: string): Promise<void> {
  const response = await call(path);
  const url = URL.createObjectURL(await response.blob());
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export interface Settings {
  theme: Theme;
  unified: boolean;
  wrap: boolean;
  changedOnly: boolean;
}

const KEY = "apass-live";

export function remembered(): Settings {
  const usual: Settings = { theme: "auto", unified: innerWidth < 1200, wrap: true, changedOnly: false };
  try {
    return { ...usual, ...(JSON.parse(localStorage.getItem(KEY) ?? "{}") as Partial<Settings>) };
  } catch {
    return usual;
  }
}

export function remember(settings: Settings): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(settings));
  } catch {
    // Where the browser keeps nothing, nothing is kept.
  }
}

export { STATES };
