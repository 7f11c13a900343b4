// The jobs of the tenant: searched, filtered by state, the latest first.

import { useEffect, useRef, useState } from "preact/hooks";
import { visible } from "../shared/model";
import { hasEnded, Job, JobState, STATES } from "./api";
import { ago, date, seconds } from "./format";
import { jobs, Listing, useCell } from "./store";
import { connection } from "./api";

interface Props {
  current: string | null;
  open: (id: string) => void;
  submit: () => void;
}

const TITLES: Record<JobState, string> = {
  queued: "Queued",
  running: "Running",
  done: "Done",
  failed: "Failed",
  cancelled: "Cancelled",
};

export function JobList({ current, open, submit }: Props) {
  const listing = useCell(jobs.listing);
  const status = useCell(jobs.status);
  const [text, setText] = useState("");
  const [states, setStates] = useState<ReadonlySet<JobState>>(new Set());
  const isFirst = useRef(true);
  useEffect(() => {
    if (isFirst.current) {
      isFirst.current = false; // the connection reads the first page
      return;
    }
    const timer = setTimeout(() => void jobs.search({ text: text.trim(), states }), text ? 200 : 0);
    return () => clearTimeout(timer);
  }, [text, states]);
  const flip = (state: JobState) => {
    const next = new Set(states);
    if (!next.delete(state)) next.add(state);
    setStates(next);
  };
  const clear = () => {
    setText("");
    setStates(new Set());
  };
  const isFiltered = text.trim() !== "" || states.size > 0;
  return (
    <nav class="column jobs" aria-label="Jobs">
      <header>
        <label class="search">
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <circle cx="7" cy="7" r="4.5" />
            <path d="M10.5 10.5 14 14" />
          </svg>
          <input
            id="search"
            type="search"
            placeholder="Search jobs"
            aria-label="Search jobs by name, pipeline or id"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          <kbd aria-hidden="true">/</kbd>
        </label>
        <div class="states" role="group" aria-label="States">
          {STATES.map((state) => (
            <button key={state} class={`chip ${state}`} aria-pressed={states.has(state)} onClick={() => flip(state)}>
              <i class={`dot ${state}`} />
              {TITLES[state]}
              {status?.jobs[state] ? <span class="many"> {status.jobs[state]!.toLocaleString("en-US")}</span> : null}
            </button>
          ))}
        </div>
      </header>
      <Rows listing={listing} current={current} open={open} submit={submit} isFiltered={isFiltered} clear={clear} />
    </nav>
  );
}

interface RowsProps extends Props {
  listing: Listing;
  isFiltered: boolean;
  clear: () => void;
}

function Rows({ listing, current, open, submit, isFiltered, clear }: RowsProps) {
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    list.current?.querySelector('[aria-current="true"]')?.scrollIntoView({ block: "nearest" });
  }, [current]);
  useTicks(listing.jobs.some((job) => !hasEnded(job)) ? 1000 : 5000);
  const move = (event: KeyboardEvent) => {
    const by = { ArrowUp: -1, ArrowDown: 1, Home: -Infinity, End: Infinity }[event.key];
    const links = [...list.current!.querySelectorAll<HTMLElement>("a")];
    const here = links.indexOf(document.activeElement as HTMLElement);
    if (by === undefined || here < 0) return;
    event.preventDefault();
    links[Math.max(0, Math.min(links.length - 1, here + by))].focus();
  };
  if (listing.error) return <p class="empty bad">{listing.error}</p>;
  if (!listing.hasLoaded) return <p class="empty">{listing.isLoading ? "Loading…" : "Not connected"}</p>;
  if (!listing.jobs.length)
    return isFiltered ? (
      <div class="empty">
        <p>No job matches.</p>
        <button class="secondary" onClick={clear}>
          Show all jobs
        </button>
      </div>
    ) : (
      <div class="empty">
        <p>There are no jobs yet.</p>
        <button class="secondary" onClick={submit}>
          Submit a model
        </button>
      </div>
    );
  // One stop of the Tab key: the job that is open, or the first.
  const stop = listing.jobs.some((job) => job.id === current) ? current : listing.jobs[0].id;
  return (
    <div class="scroll">
      <ul ref={list} onKeyDown={move}>
        {listing.jobs.map((job) => (
          <Row key={job.id} job={job} isCurrent={job.id === current} isStop={job.id === stop} open={open} />
        ))}
      </ul>
      {listing.next !== null && (
        <button class="more" disabled={listing.isLoading} onClick={() => void jobs.more()}>
          {listing.isLoading ? "Loading…" : "Older jobs"}
        </button>
      )}
    </div>
  );
}

interface RowProps {
  job: Job;
  isCurrent: boolean;
  isStop: boolean;
  open: (id: string) => void;
}

function Row({ job, isCurrent, isStop, open }: RowProps) {
  const click = (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // in another tab or window
    event.preventDefault();
    open(job.id);
  };
  return (
    <li>
      <a
        href={`#job=${job.id}`}
        class={`job ${job.state}`}
        aria-current={isCurrent}
        tabIndex={isStop ? 0 : -1}
        onClick={click}
        title={`${visible(job.name)}\n${date(job.created)}`}
      >
        <i class={`dot ${job.state}`} />
        <span class="name">
          <bdi>{visible(job.name)}</bdi>
        </span>
        <span class="sr">{job.state}</span>
        <span class="when">{whenOf(job)}</span>
        <span class="under">
          <bdi>{pipelineName(job)}</bdi>
        </span>
        <span class="took">{tookOf(job)}</span>
      </a>
    </li>
  );
}

export function pipelineName(job: Job): string {
  return visible(job.pipeline || "default").replaceAll(/\s+/g, " ");
}

function whenOf(job: Job): string {
  return ago(job.created);
}

function tookOf(job: Job): string {
  if (job.state === "queued") return "queued";
  if (job.state === "running") return seconds(connection.now() - (job.started ?? job.created));
  if (job.reused) return "reused";
  if (job.started === null || job.finished === null) return job.state;
  return seconds(job.finished - job.started);
}

/** Draw a component again after a time, again and again. */
export function useTicks(milliseconds: number): void {
  const [, setTick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setTick((tick) => tick + 1), milliseconds);
    return () => clearInterval(timer);
  }, [milliseconds]);
}
