// One run of a pass: what it did to the module, and what is known of it.

import { useMemo } from "preact/hooks";
import { DiffView, TextView } from "./diffview";
import { amount, count, time } from "./format";
import { Data, Failure, Look, LookUpdate, Pane, Remark, REMARK_KINDS, Run, Status, STATUS_NAMES } from "./model";
import { Tabs } from "./tabs";

const MOST = 500; // rows of a list that is made at once

interface Props {
  data: Data;
  state: Look;
  update: LookUpdate;
}

export function Detail({ data, state, update }: Props) {
  const { run, module } = state;
  if (!run) {
    return (
      <section class="column detail" aria-label="Detail">
        {module?.failure ? (
          <div class="page">
            <h2>{module.name}</h2>
            <FailureCard failure={module.failure} />
          </div>
        ) : (
          <p class="empty">Choose a pass.</p>
        )}
      </section>
    );
  }
  return (
    <section class="column detail" aria-label="Detail" onMouseOver={(event) => addHistory(event, run.module.histories)}>
      <Head run={run} isLive={data.isLive} />
      {run.failure && <FailureCard failure={run.failure} />}
      <Panes data={data} run={run} state={state} update={update} />
    </section>
  );
}

const NAME = /[%@]?[\w$./:-]*[\w$]/g;
const MOST_HISTORIES = 8; // of one line

/** Show, as the title of a line, which passes touched the nodes that it names. */
function addHistory(event: MouseEvent, histories: Map<string, string[]> | undefined): void {
  const line = histories && (event.target as HTMLElement).closest<HTMLElement>(".line code");
  if (!line) return;
  const names = line.textContent!.match(NAME) ?? [];
  const found = new Set(names.flatMap((name) => histories.get(name) ?? []));
  line.title = [...found].slice(0, MOST_HISTORIES).join("\n");
}

function Head({ run, isLive }: { run: Run; isLive?: boolean }) {
  const path: Run[] = [];
  for (let one: Run | null = run; one; one = one.parent) path.unshift(one);
  return (
    <header class="head">
      <nav class="path" aria-label="Path">
        {path.map((one, at) => (
          <span key={one.id} class={at === path.length - 1 ? "last" : ""}>
            {one.name}
            {path[at + 1]?.func ? `@${path[at + 1].func}` : ""}
          </span>
        ))}
        <span class={`state ${STATUS_NAMES[run.status]}`}>{STATUS_NAMES[run.status]}</span>
      </nav>
      <dl class="facts">
        <Fact name="wall" value={time(run.wall)} />
        {!isLive && <Fact name="at work" value={time(run.busy)} />}
        {(!isLive || run.waits.length > 0) && <Fact name="waiting" value={time(Math.max(0, run.wall - run.busy))} />}
        {Object.entries(run.statistics).map(([name, value]) => (
          <Fact key={name} name={name} value={amount(value)} />
        ))}
      </dl>
    </header>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Panes({ data, run, state, update }: Props & { run: Run }) {
  const before = useMemo(() => data.text(run.before), [run, run.before]);
  const after = useMemo(() => data.text(run.after), [run, run.after]);
  const isChanged = run.before !== run.after && run.before >= 0 && run.after >= 0;
  const panes: [Pane, string][] = [["diff", "Diff"]];
  if (run.before >= 0) panes.push(["before", "Before"]);
  if (run.after >= 0) panes.push(["after", "After"]);
  if (run.remarks.length) panes.push(["remarks", `Remarks ${run.remarks.length}`]);
  if (run.bodies.length) panes.push(["functions", `Functions ${run.bodies.length}`]);
  const pane = panes.some(([one]) => one === state.pane) ? state.pane : "diff";
  return (
    <>
      <div class="panes">
        <Tabs tabs={panes} current={pane} label="Text" select={(one) => update({ pane: one })} />
        <span class="space" />
        <label class="search find">
          <input
            id="find"
            type="search"
            placeholder="Find in text"
            aria-label="Find in text"
            value={state.find}
            onInput={(event) => update({ find: event.currentTarget.value })}
          />
          <kbd>s</kbd>
        </label>
        {pane !== "remarks" && pane !== "functions" && (
          <button
            class="wrap"
            aria-pressed={state.wrap}
            onClick={() => update({ wrap: !state.wrap })}
            title="Wrap long lines (w)"
          >
            Wrap
          </button>
        )}
        {pane === "diff" && isChanged && (
          <div class="switch" role="group" aria-label="Layout">
            <button aria-pressed={!state.unified} onClick={() => update({ unified: false })} title="Side by side (u)">
              Split
            </button>
            <button aria-pressed={state.unified} onClick={() => update({ unified: true })} title="One column (u)">
              Unified
            </button>
          </div>
        )}
      </div>
      {pane === "diff" && isChanged && <DiffView before={before} after={after} unified={state.unified} wrap={state.wrap} find={state.find} />}
      {pane === "diff" && !isChanged && <Unchanged run={run} text={before || after} state={state} isLive={data.isLive} />}
      {pane === "before" && <TextView text={before} wrap={state.wrap} find={state.find} />}
      {pane === "after" && <TextView text={after} wrap={state.wrap} find={state.find} />}
      {pane === "remarks" && <RemarkList remarks={run.remarks} />}
      {pane === "functions" && <Functions run={run} />}
    </>
  );
}

function Unchanged({ run, text, state, isLive }: { run: Run; text: string; state: Look; isLive?: boolean }) {
  const said: Record<number, string> = {
    [Status.Unchanged]: "This pass left the module as it was.",
    [Status.Failed]: "This pass failed.",
    [Status.Cancelled]: "This pass was cancelled.",
    [Status.Unfinished]: "This pass had not ended.",
    [Status.Running]: "This pass runs.",
    [Status.Changed]: isLive
      ? "This pass changed the module. The job asked for no texts on this page; its report may have them."
      : "This pass changed the module, and the texts were not kept.",
  };
  const isBefore = text && run.status !== Status.Unchanged && run.status !== Status.Changed;
  return (
    <>
      <p class="note">
        {said[run.status]}
        {isBefore && " The module before it:"}
      </p>
      {text && <TextView text={text} wrap={state.wrap} find={state.find} />}
    </>
  );
}

function Functions({ run }: { run: Run }) {
  const bodies = [...run.bodies].sort((a, b) => b.wall - a.wall);
  return (
    <div class="page">
      <p class="note">Functions that this pass changed, failed on, or took long for.</p>
      <table>
        <thead>
          <tr>
            <th>function</th>
            <th>result</th>
            <th class="n">wall</th>
            <th class="n">at work</th>
            <th class="n">waiting</th>
          </tr>
        </thead>
        <tbody>
          {bodies.slice(0, MOST).map((body, at) => (
            <tr key={at}>
              <td>@{body.func}</td>
              <td>
                <span class={`state ${STATUS_NAMES[body.status]}`}>{STATUS_NAMES[body.status]}</span>
              </td>
              <td class="n">{time(body.wall)}</td>
              <td class="n">{time(body.busy)}</td>
              <td class="n">{time(Math.max(0, body.wall - body.busy))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <More total={bodies.length} />
    </div>
  );
}

function More({ total }: { total: number }) {
  return total > MOST ? <p class="note">and {(total - MOST).toLocaleString("en-US")} more</p> : null;
}

export function RemarkList({ remarks }: { remarks: Remark[] }) {
  return (
    <div class="page">
      {remarks.slice(0, MOST).map((remark, at) => (
        <article key={at} class="remark">
          <span class={`kind ${REMARK_KINDS[remark.kind]}`}>{REMARK_KINDS[remark.kind]}</span>
          <b>{remark.name}</b>
          <span>{remark.message}</span>
          <small>{[remark.func && `@${remark.func}`, remark.place].filter(Boolean).join(" · ")}</small>
        </article>
      ))}
      <More total={remarks.length} />
      {remarks.length === 0 && <p class="empty">{count(0, "remark")}</p>}
    </div>
  );
}

export function FailureCard({ failure }: { failure: Failure }) {
  return (
    <article class="failure">
      <h3>
        {failure.kind}
        {failure.message && `: ${failure.message}`}
      </h3>
      {failure.notes.length > 0 && (
        <ul>
          {failure.notes.map((note, at) => (
            <li key={at}>{note}</li>
          ))}
        </ul>
      )}
      {failure.traceback && (
        <details>
          <summary>Traceback</summary>
          <pre>{failure.traceback}</pre>
        </details>
      )}
    </article>
  );
}
