// The page: what is at its top, the list of jobs, the job that is open, and the keyboard.

import { useEffect, useRef, useState } from "preact/hooks";
import { isTyping, KeyTable, Logo } from "../shared/frame";
import { applyTheme, nextTheme, THEME_SIGNS } from "../shared/theme";
import { connection, whileVisible } from "./api";
import { Dialog } from "./dialog";
import { JobView } from "./job";
import { JobList } from "./joblist";
import { announcement, isTokenWanted, jobs, link, linkProblem, remember, remembered, Settings, useCell } from "./store";
import { SubmitDialog } from "./submit";
import { TokenDialog } from "./token";
import { Welcome } from "./welcome";

const KEYS: [string, string][] = [
  ["a", "a new job"],
  ["/", "search for jobs"],
  ["↑ ↓", "previous, next job or pass, in its list"],
  ["n p", "next, previous change in the text"],
  ["s", "search in the text"],
  ["c", "only passes that changed something"],
  ["u", "side by side, or one column"],
  ["w", "wrap long lines, or scroll them"],
  ["t", "light, dark, or as the system is"],
  ["?", "this help"],
  ["Esc", "closes a dialog"],
];

function jobOfAddress(): string | null {
  return new URLSearchParams(location.hash.slice(1)).get("job");
}

export function App() {
  const [id, setId] = useState(jobOfAddress);
  const [settings, setSettings] = useState(remembered);
  const [help, setHelp] = useState(false);
  const [submitting, setSubmitting] = useState<File[] | null>(null);
  const [session, setSession] = useState(0);
  const isLocked = useCell(isTokenWanted);
  const state = useCell(link);
  const latest = useRef(settings);
  const update = (change: Partial<Settings>) => setSettings((latest.current = { ...latest.current, ...change }));

  useEffect(() => {
    const follow = () => setId(jobOfAddress());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);

  useEffect(() => {
    remember(settings);
    applyTheme(settings.theme);
  }, [settings]);

  useEffect(() => whileVisible((signal) => void jobs.watch(signal)), [session]);
  const isDragged = useDrop((files) => setSubmitting((before) => [...(before ?? []), ...files]));

  const open = (next: string | null) => {
    location.hash = next === null ? "" : `job=${next}`;
    setId(next);
    // In a narrow window, what had the focus is hidden then.
    if (next === null) requestAnimationFrame(() => document.querySelector<HTMLElement>(`a.job[href="#job=${id}"]`)?.focus());
  };

  const connect = () => {
    jobs.reset();
    setSession((before) => before + 1);
  };

  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (isTyping(event.target) || event.target instanceof HTMLTextAreaElement || document.querySelector("dialog[open]")) return;
      const act = {
        a: () => setSubmitting([]),
        s: () => document.querySelector<HTMLElement>("#find")?.focus(),
        c: () => update({ changedOnly: !latest.current.changedOnly }),
        u: () => update({ unified: !latest.current.unified }),
        w: () => update({ wrap: !latest.current.wrap }),
        "/": () => {
          const field = document.querySelector<HTMLElement>("#search");
          // In a narrow window, the list is hidden while a job is open.
          if (field?.offsetParent === null) open(null);
          queueMicrotask(() => requestAnimationFrame(() => document.querySelector<HTMLElement>("#search")?.focus()));
        },
        t: () => update({ theme: nextTheme(latest.current.theme) }),
        "?": () => setHelp(true),
      }[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });

  return (
    <>
      <a class="skip-link" href="#main" onClick={skip}>
        Skip to the job
      </a>
      <Top
        settings={settings}
        update={update}
        submit={() => setSubmitting([])}
        help={() => setHelp(true)}
        home={() => open(null)}
      />
      {state === "lost" && <LinkBanner />}
      <div class={`sides ${id === null ? "without" : "with"}-job`}>
        <JobList current={id} open={open} submit={() => setSubmitting([])} />
        <main id="main" tabIndex={-1}>
          {id === null ? (
            <Welcome submit={(files) => setSubmitting(files)} />
          ) : (
            <JobView key={`${id} ${session}`} id={id} settings={settings} update={update} open={open} />
          )}
        </main>
      </div>
      <Announcer />
      {isDragged && (
        <div class="veil drop" aria-hidden="true">
          <p>Drop models to submit them</p>
        </div>
      )}
      {submitting !== null && (
        <SubmitDialog files={submitting} setFiles={setSubmitting} close={() => setSubmitting(null)} open={open} />
      )}
      {isLocked && <TokenDialog connect={connect} />}
      {help && (
        <Dialog title="Keys" class="small" close={() => setHelp(false)}>
          <div class="dialog-body">
            <KeyTable keys={KEYS} />
          </div>
        </Dialog>
      )}
    </>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")!.focus();
}

interface TopProps {
  settings: Settings;
  update: (change: Partial<Settings>) => void;
  submit: () => void;
  help: () => void;
  home: () => void;
}

function Top({ settings, update, submit, help, home }: TopProps) {
  const status = useCell(jobs.status);
  const needsToken = useCell(link) === "locked" || connection.token !== "";
  const [queued, running] = [status?.jobs.queued ?? 0, status?.jobs.running ?? 0];
  useEffect(() => {
    document.title = running + queued ? `(${running + queued}) apass` : "apass";
  }, [running, queued]);
  const toHome = (event: Event) => {
    event.preventDefault();
    home();
  };
  return (
    <header class="top">
      <h1>
        <a href="#" onClick={toHome}>
          <Logo />
          <span>apass</span>
        </a>
      </h1>
      <LinkState />
      <p class="summary">
        <span>{running.toLocaleString("en-US")} running</span>
        <span>{queued.toLocaleString("en-US")} queued</span>
        {status?.tenant && <span title="The tenant of the token">{status.tenant}</span>}
      </p>
      <button class="primary" onClick={submit} title="New job (a)">
        New job
      </button>
      {needsToken && (
        <button class="round" onClick={() => isTokenWanted.set(true)} title="Token" aria-label="Token">
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <circle cx="5" cy="11" r="3" />
            <path d="M7.2 8.8 13.5 2.5M11 5l2 2" />
          </svg>
        </button>
      )}
      <button
        id="theme"
        class="round"
        onClick={() => update({ theme: nextTheme(settings.theme) })}
        title={`Colours: ${settings.theme} (t)`}
        aria-label={`Colours: ${settings.theme}`}
      >
        {THEME_SIGNS[settings.theme]}
      </button>
      <button class="round keys" onClick={help} title="Keys (?)" aria-label="Keys">
        ?
      </button>
    </header>
  );
}

const LINK_TITLES = { connecting: "connecting", live: "live", lost: "no connection", locked: "token needed" };

function LinkState() {
  const state = useCell(link);
  const isDraining = useCell(jobs.status)?.accepts === false;
  return (
    <span class={`link ${state}`} role="status">
      <i aria-hidden="true" />
      {LINK_TITLES[state]}
      {state === "live" && isDraining && ", accepts no jobs"}
    </span>
  );
}

function LinkBanner() {
  const problem = useCell(linkProblem);
  return (
    <p class="banner" role="alert">
      {problem[0]?.toUpperCase()}
      {problem.slice(1)}. Trying again…
    </p>
  );
}

function Announcer() {
  return (
    <p class="sr" role="status">
      {useCell(announcement)}
    </p>
  );
}

/** Take files that are dropped anywhere on the page; return whether some are over it. */
function useDrop(take: (files: File[]) => void): boolean {
  const [isOver, setOver] = useState(false);
  const current = useRef(take);
  current.current = take;
  useEffect(() => {
    const isFile = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
    const over = (event: DragEvent) => {
      if (!isFile(event)) return;
      event.preventDefault();
      setOver(true);
    };
    const leave = (event: DragEvent) => {
      if (event.relatedTarget === null) setOver(false);
    };
    const drop = (event: DragEvent) => {
      if (!isFile(event)) return;
      event.preventDefault();
      setOver(false);
      current.current([...event.dataTransfer!.files]);
    };
    addEventListener("dragover", over);
    addEventListener("dragleave", leave);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("dragleave", leave);
      removeEventListener("drop", drop);
    };
  }, []);
  return isOver;
}
