// All that is known about a job, and why it failed.

import { visible } from "../shared/model";
import { Diagnostic, Job, JobFailure } from "./api";
import { date, seconds, size } from "./format";
import { pipelineName } from "./joblist";
import { download } from "./store";

const MOST = 200; // rows that are made at once

export function Failure({ failure }: { failure: JobFailure }) {
  // The notes of the error say where, too.
  const where = failure.notes.length ? "" : [failure.pass && `in pass ${failure.pass}`, failure.function && `function ${failure.function}`].filter(Boolean).join(", ");
  return (
    <article class="failure" aria-label="Failure">
      <h3>
        {visible(failure.kind)}
        {failure.message && `: ${visible(failure.message)}`}
      </h3>
      {where && <p>{visible(where)}</p>}
      {failure.notes.length > 0 && (
        <ul>
          {failure.notes.slice(0, MOST).map((note, at) => (
            <li key={at}>{visible(note)}</li>
          ))}
        </ul>
      )}
      <Diagnostics items={failure.diagnostics} />
    </article>
  );
}

function Diagnostics({ items }: { items: Diagnostic[] }) {
  if (!items.length) return null;
  return (
    <ul class="diagnostics">
      {items.slice(0, MOST).map((item, at) => (
        <li key={at}>
          <span class={`level ${item.level}`}>{item.level}</span>
          <span>{visible(item.message)}</span>
          <span class="quiet">
            {visible([item.pass, item.source && `${item.source}:${item.line}:${item.column}`].filter(Boolean).join(", "))}
          </span>
        </li>
      ))}
    </ul>
  );
}

export function Details({ job }: { job: Job }) {
  const { options, summary } = job;
  const rows: [string, string | null][] = [
    ["Id", job.id],
    ["Tenant", job.tenant || null],
    ["Pipeline", pipelineName(job)],
    ["Model", `${job.kind}, ${size(job.model.size)}`],
    ["SHA-256", job.model.digest],
    ["Result", job.result && `${job.result_kind}, ${size(job.result.size)}`],
    ["SHA-256 of the result", job.result && job.result.digest],
    ["Level", String(options.opt_level)],
    ["Required passes", options.required.join(", ") || null],
    ["Disabled passes", options.disabled.join(", ") || null],
    ["Config", Object.keys(options.config).length ? JSON.stringify(options.config) : null],
    ["Priority", String(job.priority)],
    ["Accepted", date(job.created)],
    ["Started", job.started === null ? null : date(job.started)],
    ["Ended", job.finished === null ? null : date(job.finished)],
    ["Deadline", job.deadline === null ? null : date(job.deadline)],
    ["Attempts", String(job.attempts)],
    ["In the worker", summary && seconds(summary.seconds)],
    ["Reused", job.reused ? "the result is that of an equal job" : null],
  ];
  return (
    <div class="page details">
      {summary && summary.diagnostics.length > 0 && (
        <section class="card" aria-label="Diagnostics">
          <h3>Diagnostics</h3>
          <Diagnostics items={summary.diagnostics} />
        </section>
      )}
      {summary && <Changes counts={summary.changed_by} cached={summary.cached} />}
      <section class="card" aria-label="Job">
        <h3>Job</h3>
        <dl class="rows">
          {rows.map(([name, value]) =>
            value === null ? null : (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{visible(value)}</dd>
              </div>
            ),
          )}
        </dl>
        {job.links.model !== null && (
          <button class="secondary" onClick={() => void download(`v1/jobs/${job.id}/model`, job.name)}>
            Model
          </button>
        )}
      </section>
    </div>
  );
}

function Changes({ counts, cached }: { counts: Record<string, number>; cached: Record<string, number> }) {
  const names = [...new Set([...Object.keys(counts), ...Object.keys(cached)])];
  return (
    <section class="card" aria-label="Changes">
      <h3>Changes</h3>
      {names.length ? (
        <table>
          <thead>
            <tr>
              <th>pass</th>
              <th class="n">changed the model</th>
              <th class="n">from the cache</th>
            </tr>
          </thead>
          <tbody>
            {names.slice(0, MOST).map((name) => (
              <tr key={name}>
                <td>{visible(name)}</td>
                <td class="n">{(counts[name] ?? 0).toLocaleString("en-US")}</td>
                <td class="n">{(cached[name] ?? 0).toLocaleString("en-US")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p class="quiet">No pass changed the model.</p>
      )}
    </section>
  );
}
