// The server: requests with the token, errors as it describes them, and streams of events that connect again.

export const BASE = new URL("..", (document.currentScript as HTMLScriptElement).src);

export type JobState = "queued" | "running" | "done" | "failed" | "cancelled";
export const STATES: JobState[] = ["queued", "running", "done", "failed", "cancelled"];

export interface Diagnostic {
  level: string;
  message: string;
  pass?: string;
  source?: string;
  line?: number;
  column?: number;
}

export interface JobFailure {
  kind: string;
  message: string;
  notes: string[];
  pass: string | null;
  function: string | null;
  diagnostics: Diagnostic[];
}

export interface Job {
  id: string;
  tenant: string;
  name: string;
  state: JobState;
  kind: string;
  result_kind: string;
  pipeline: string;
  options: {
    opt_level: number;
    required: string[];
    disabled: string[];
    config: Record<string, unknown>;
    report: boolean;
    functions: boolean;
    texts?: boolean;
  };
  priority: number;
  created: number; // seconds since 1970, as all times
  started: number | null;
  finished: number | null;
  deadline: number | null;
  attempts: number;
  reused: boolean;
  model: { digest: string; size: number };
  result: { digest: string; size: number } | null;
  summary: {
    before: number | null;
    after: number | null;
    changed: boolean;
    changed_by: Record<string, number>;
    cached: Record<string, number>;
    seconds: number;
    diagnostics: Diagnostic[];
  } | null;
  failure: JobFailure | null;
  links: { model: string | null; result: string | null; report: string | null };
}

export function hasEnded(job: Job): boolean {
  return job.state !== "queued" && job.state !== "running";
}

export interface ServerEvent {
  id: number;
  kind: string;
  time: number;
  [name: string]: unknown;
}

/** The server answered with an error. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    detail: string,
    readonly retryAfter: number | null,
  ) {
    super(detail);
  }
}

/** The server did not answer. */
export class Unreachable extends Error {}

const KEY = "apass-token";

class Connection {
  token = read();
  onLost: (error: Unreachable | Problem) => void = () => {};
  onAnswer: () => void = () => {};
  onLocked: (error: Problem) => void = () => {};
  private skew = 0;

  /** Keep the token until the browser's tab is closed. */
  keep(token: string): void {
    this.token = token;
    try {
      if (token) sessionStorage.setItem(KEY, token);
      else sessionStorage.removeItem(KEY);
    } catch {
      // Where the browser keeps nothing, the token lasts as long as the page.
    }
  }

  /** Return the time of the server in seconds since 1970. */
  now(): number {
    return Date.now() / 1000 - this.skew;
  }

  note(response: Response): void {
    const date = Date.parse(response.headers.get("date") ?? "");
    const skew = (Date.now() - date) / 1000;
    // The header has whole seconds: a smaller difference means nothing.
    if (!Number.isNaN(date)) this.skew = Math.abs(skew) < 2 ? 0 : skew;
  }
}

function read(): string {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

export const connection = new Connection();

/** Send a request to a path below the page's own. */
export async function call(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (connection.token) headers.set("authorization", `Bearer ${connection.token}`);
  let response: Response;
  try {
    response = await fetch(new URL(path, BASE), { ...init, headers, cache: "no-store", credentials: "same-origin" });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    const lost = new Unreachable("the server does not answer");
    connection.onLost(lost);
    throw lost;
  }
  connection.note(response);
  if (response.ok) {
    connection.onAnswer();
    return response;
  }
  const problem = await problemOf(response);
  if (response.status === 401) connection.onLocked(problem);
  else if ([502, 503, 504].includes(response.status)) connection.onLost(problem);
  else connection.onAnswer();
  throw problem;
}

export async function callJson<T>(path: string, init?: RequestInit): Promise<T> {
  const response = await call(path, init);
  try {
    return (await response.json()) as T;
  } catch (error) {
    if (init?.signal?.aborted) throw error;
    throw new Unreachable("the answer of the server broke off");
  }
}

async function problemOf(response: Response): Promise<Problem> {
  let values: { title?: unknown; detail?: unknown; retry_after?: unknown } = {};
  try {
    values = (await response.json()) as typeof values;
  } catch {
    // A proxy answers with a page of its own.
  }
  const title = typeof values.title === "string" ? values.title : `status ${response.status}`;
  const detail = typeof values.detail === "string" ? values.detail : `the server answered with status ${response.status}`;
  return new Problem(response.status, title, detail, typeof values.retry_after === "number" ? values.retry_after : null);
}

/** Return the text to show for an error. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Return a name for a request, by which a repeated one finds the same job. */
export function requestName(): string {
  // `randomUUID` exists on encrypted connections only.
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const SILENCE = 60_000; // milliseconds without a sign of life after which a stream is given up
const PAUSES = [300, 600, 1200, 2400, 4000]; // milliseconds before the next attempts to connect

interface Following {
  signal: AbortSignal;
  position?: { last: string }; // the id of the last event, if they have ids, from which the next connection goes on
  onOpen?: () => void;
  onEvent: (event: ServerEvent) => void;
  isOver?: () => boolean;
}

/** Read a stream of events until it is over or `signal` aborts; connect again when it breaks off. */
export async function follow(path: string, { signal, position, onOpen, onEvent, isOver }: Following): Promise<void> {
  let failures = 0;
  while (!signal.aborted && !isOver?.()) {
    try {
      const headers: Record<string, string> = { accept: "text/event-stream" };
      if (position?.last) headers["last-event-id"] = position.last;
      const response = await call(path, { headers, signal });
      if (response.status === 204 || !response.body) return;
      failures = 0;
      onOpen?.();
      await readEvents(response.body, signal, (id, data) => {
        if (position) position.last = id;
        onEvent(JSON.parse(data) as ServerEvent);
      });
    } catch (error) {
      if (signal.aborted) return;
      const isLasting = error instanceof Problem && error.status < 500 && error.status !== 429;
      if (isLasting) throw error;
    }
    if (!isOver?.()) await sleep(PAUSES[Math.min(failures++, PAUSES.length - 1)], signal);
  }
}

async function readEvents(body: ReadableStream<Uint8Array>, signal: AbortSignal, onEvent: (id: string, data: string) => void) {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let [rest, id, data] = ["", "", ""];
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    while (!signal.aborted) {
      timer = setTimeout(() => void reader.cancel(), SILENCE);
      const { done, value } = await reader.read();
      clearTimeout(timer);
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop()!;
      for (const line of lines) {
        if (line === "") {
          if (data) onEvent(id, data);
          data = "";
        } else if (line.startsWith("data: ")) data += line.slice(6);
        else if (line.startsWith("id: ")) id = line.slice(4);
      }
    }
  } finally {
    clearTimeout(timer);
    reader.cancel().catch(() => {}); // it has broken off already
  }
}

/** Call `run` with a signal that aborts when the page is out of sight: a browser opens six connections to a server. */
export function whileVisible(run: (signal: AbortSignal) => void): () => void {
  let controller: AbortController | null = null;
  const look = () => {
    if (document.hidden) {
      controller?.abort();
      controller = null;
    } else if (!controller) {
      controller = new AbortController();
      run(controller.signal);
    }
  };
  look();
  document.addEventListener("visibilitychange", look);
  return () => {
    document.removeEventListener("visibilitychange", look);
    controller?.abort();
  };
}

export function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const timer = setTimeout(done, milliseconds);
    function done() {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    }
    signal.addEventListener("abort", done);
  });
}
