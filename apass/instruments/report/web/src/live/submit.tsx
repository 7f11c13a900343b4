// The form for new jobs: the files, the pipeline, and the options.

import { useEffect, useRef, useState } from "preact/hooks";
import { visible } from "../shared/model";
import { callJson, Job, messageOf, requestName, Unreachable } from "./api";
import { Builder, PassInfo } from "./builder";
import { Dialog } from "./dialog";
import { size } from "./format";
import { Plan, PlanTree } from "./plan";
import { announce, jobs, useCell } from "./store";

interface Props {
  files: File[];
  setFiles: (files: File[]) => void;
  close: () => void;
  open: (id: string) => void;
}

interface NamedPipeline {
  name: string;
  text: string | null;
  doc: string;
  passes: string[];
}

interface Catalogue {
  pipelines: NamedPipeline[];
  allow: string[];
  passes: PassInfo[];
}

interface Form {
  isText: boolean;
  named: string;
  text: string;
  level: string;
  priority: string;
  deadline: string;
  report: boolean;
  functions: boolean;
}

/** What was chosen the last time, until the page is left. */
let last: Form = {
  isText: false,
  named: "",
  text: "",
  level: "2",
  priority: "0",
  deadline: "",
  report: true,
  functions: false,
};

export function SubmitDialog({ files, setFiles, close, open }: Props) {
  const [form, setForm] = useState(last);
  const [catalogue, setCatalogue] = useState<Catalogue | null>(null);
  const [error, setError] = useState("");
  const [sent, setSent] = useState(-1); // files that were accepted; -1 before
  const [failed, setFailed] = useState<ReadonlyMap<File, string>>(new Map());
  const names = useRef(new WeakMap<File, string>());
  const status = useCell(jobs.status);
  const update = (change: Partial<Form>) => {
    setForm((before) => (last = { ...before, ...change }));
    names.current = new WeakMap(); // it is another request from now on
  };

  useEffect(() => {
    Promise.all([
      callJson<{ pipelines: NamedPipeline[]; allow: string[] }>("v1/pipelines"),
      callJson<{ passes: PassInfo[] }>("v1/passes"),
    ]).then(
      ([{ pipelines, allow }, { passes }]) => {
        setCatalogue({ pipelines, allow, passes: passes.filter((pass) => pass.allowed) });
        setForm((before) => ({ ...before, named: pipelines.some((one) => one.name === before.named) ? before.named : (pipelines[0]?.name ?? "") }));
      },
      (raised: unknown) => setError(messageOf(raised)),
    );
  }, []);

  const pipeline = form.isText ? form.text : form.named;
  const suffix = suffixOf(files[0]);
  const named = form.isText ? null : catalogue?.pipelines.find((one) => one.name === form.named);
  // The default pipeline is that of the model's IR, which the first file decides.
  const isOpen = named?.text === "" && !status?.suffixes.includes(suffix);
  const plan = usePlan(catalogue && !isOpen ? pipeline : null, form.level, suffix);
  const isSending = sent >= 0;
  const add = (more: Iterable<File>) => setFiles([...files, ...more]);
  const pick = (event: Event) => {
    const input = event.currentTarget as HTMLInputElement;
    add([...(input.files ?? [])]);
    input.value = ""; // so that the same file can be chosen again
  };

  const submit = async (event: Event) => {
    event.preventDefault();
    if (!files.length || isSending) return;
    const failures = new Map<File, string>();
    const accepted: Job[] = [];
    setSent(0);
    setError("");
    for (const file of files) {
      try {
        accepted.push(await send(file, form, pipeline, names.current));
        jobs.apply(accepted.at(-1)!);
      } catch (raised) {
        failures.set(file, messageOf(raised));
      }
      setSent(accepted.length + failures.size);
    }
    setSent(-1);
    setFailed(failures);
    announce(accepted.length === 1 ? `${accepted[0].name} is accepted` : `${accepted.length} jobs are accepted`);
    if (failures.size) setFiles([...failures.keys()]);
    else close();
    if (accepted.length && !failures.size) open(accepted[0].id);
  };

  return (
    <Dialog title="New job" class="submit" close={close}>
      <form onSubmit={(event) => void submit(event)}>
        <div class="form">
          <div class="half-form">
            <label class="dropzone">
              <input type="file" multiple data-first onChange={pick} />
              <b>{files.length ? "Add files" : "Drop files here, or choose them"}</b>
              {status && <span class="hint">{status.suffixes.join("  ")}</span>}
            </label>
            {files.length > 0 && (
              <ul class="files" aria-label="Files">
                {files.map((file, at) => (
                  <li key={at}>
                    <span class="name">
                      <bdi>{visible(file.name)}</bdi>
                    </span>
                    <span class="quiet">{size(file.size)}</span>
                    <button
                      type="button"
                      class="round small"
                      aria-label={`Leave out ${visible(file.name)}`}
                      title="Leave out"
                      onClick={() => setFiles(files.toSpliced(at, 1))}
                    >
                      ✕
                    </button>
                    {failed.has(file) && (
                      <p class="bad" role="alert">
                        {failed.get(file)}
                      </p>
                    )}
                    {!failed.has(file) && status && !status.suffixes.includes(suffixOf(file)) && (
                      <p class="warning">There is no format for {suffixOf(file) || "files without a suffix"}.</p>
                    )}
                  </li>
                ))}
              </ul>
            )}
            <Options form={form} update={update} longest={status?.limits.max_deadline ?? null} />
            {isOpen ? <p class="hint">The passes depend on the format of the model.</p> : <PlanView plan={plan} />}
          </div>
          <div class="half-form">
            {error && (
              <p class="message bad" role="alert">
                {error}
              </p>
            )}
            {catalogue && <PipelineFields catalogue={catalogue} form={form} update={update} />}
          </div>
        </div>
        <footer class="actions">
          {isSending && (
            <span class="quiet" role="status">
              Sending {Math.min(files.length, sent + 1)} of {files.length}…
            </span>
          )}
          <span class="space" />
          <button type="button" class="secondary" onClick={close}>
            Close
          </button>
          <button type="submit" class="primary" disabled={!files.length || isSending || !catalogue}>
            {files.length > 1 ? `Submit ${files.length} jobs` : "Submit"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

/** Send a file; a request whose answer was lost is sent again under the same name. */
async function send(file: File, form: Form, pipeline: string, names: WeakMap<File, string>): Promise<Job> {
  const query = new URLSearchParams({ name: file.name, pipeline, opt_level: form.level, priority: form.priority });
  query.set("report", String(form.report));
  query.set("functions", String(form.functions));
  query.set("texts", "true");
  if (form.deadline) query.set("deadline", form.deadline);
  const name = names.get(file) ?? requestName();
  names.set(file, name);
  const headers = { "content-type": "application/octet-stream", "idempotency-key": name };
  const path = `v1/jobs?${query}`;
  try {
    return await callJson<Job>(path, { method: "POST", headers, body: file });
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    return await callJson<Job>(path, { method: "POST", headers, body: file });
  }
}

function suffixOf(file: File | undefined): string {
  return /\.[^.]+$/.exec(file?.name ?? "")?.[0].toLowerCase() ?? "";
}

interface FieldProps {
  form: Form;
  update: (change: Partial<Form>) => void;
}

function Options({ form, update, longest }: FieldProps & { longest: number | null }) {
  return (
    <fieldset>
      <legend>Options</legend>
      <div class="numbers">
        <label class="field">
          <span>Level</span>
          <input type="number" min="0" max="1000" required value={form.level} onInput={(event) => update({ level: event.currentTarget.value })} />
        </label>
        <label class="field">
          <span>Priority</span>
          <input
            type="number"
            min="-1000"
            max="1000"
            required
            value={form.priority}
            onInput={(event) => update({ priority: event.currentTarget.value })}
          />
        </label>
        <label class="field">
          <span>Deadline in seconds</span>
          <input
            type="number"
            min="0.001"
            step="any"
            max={longest ?? undefined}
            placeholder="none"
            value={form.deadline}
            onInput={(event) => update({ deadline: event.currentTarget.value })}
          />
        </label>
      </div>
      <label class="check">
        <input type="checkbox" checked={form.report} onChange={(event) => update({ report: event.currentTarget.checked })} />
        Record a report
      </label>
      <label class="check">
        <input type="checkbox" checked={form.functions} onChange={(event) => update({ functions: event.currentTarget.checked })} />
        Show each function
      </label>
    </fieldset>
  );
}

function PipelineFields({ catalogue, form, update }: FieldProps & { catalogue: Catalogue }) {
  const named = catalogue.pipelines.find((one) => one.name === form.named);
  const mayWrite = catalogue.allow.length > 0;
  const isText = form.isText && mayWrite;
  return (
    <fieldset>
      <legend>Pipeline</legend>
      {mayWrite && (
        <div class="switch" role="radiogroup" aria-label="Kind of pipeline">
          {[false, true].map((value) => (
            <label key={String(value)}>
              <input type="radio" name="kind" checked={isText === value} onChange={() => update({ isText: value, text: form.text || (named?.text ?? "") })} />
              {value ? "Own" : "Named"}
            </label>
          ))}
        </div>
      )}
      {isText ? (
        <Builder text={form.text} passes={catalogue.passes} change={(text) => update({ text })} />
      ) : (
        <>
          <label class="field">
            <span>Name</span>
            <select value={form.named} onChange={(event) => update({ named: event.currentTarget.value })}>
              {catalogue.pipelines.map((one) => (
                <option key={one.name} value={one.name}>
                  {visible(one.name)}
                </option>
              ))}
            </select>
          </label>
          {named?.doc && <p class="hint doc">{visible(named.doc)}</p>}
          {named?.text && <pre class="pipeline">{visible(named.text)}</pre>}
        </>
      )}
    </fieldset>
  );
}

type Planning = { plan: Plan | null; error: string; isOld: boolean };

/** Ask the server for the plan of a pipeline, soon after its last change. */
function usePlan(pipeline: string | null, level: string, suffix: string): Planning {
  const [planning, setPlanning] = useState<Planning>({ plan: null, error: "", isOld: true });
  useEffect(() => {
    if (pipeline === null) return;
    const controller = new AbortController();
    setPlanning((before) => ({ ...before, isOld: true }));
    const timer = setTimeout(() => {
      const body = { pipeline, opt_level: Number(level), ...(suffix && { suffix }) };
      const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal: controller.signal };
      callJson<Plan>("v1/plan", init).then(
        (plan) => setPlanning({ plan, error: "", isOld: false }),
        (raised: unknown) => !controller.signal.aborted && setPlanning({ plan: null, error: messageOf(raised), isOld: false }),
      );
    }, 300);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [pipeline, level, suffix]);
  return planning;
}

function PlanView({ plan: { plan, error, isOld } }: { plan: Planning }) {
  return (
    <section class={`planview ${isOld ? "old" : ""}`} aria-label="Plan" aria-busy={isOld}>
      <h3>Plan</h3>
      {error && (
        <p class="message warning" role="status">
          {visible(error)}
        </p>
      )}
      {plan && <PlanTree passes={plan.plan.passes.length ? plan.plan.passes : [plan.plan]} />}
    </section>
  );
}
