// The passes of a module, nested as they called each other.

import { time } from "./format";
import { Data, Look, LookUpdate, Run, Status, STATUS_NAMES } from "./model";
import { VirtualList } from "./virtual";

interface Props {
  data: Data;
  state: Look;
  update: LookUpdate;
  shown: Run[];
  select: (run: Run) => void;
}

export function Passes({ data, state, update, shown, select }: Props) {
  const module = state.module;
  const longest = Math.max(module?.wall ?? 0, 1);
  const row = (run: Run) => (
    <button
      key={run.id}
      class={`row pass ${STATUS_NAMES[run.status]} ${run === state.run ? "active" : ""} ${run.children.length ? "outer" : ""}`}
      style={{ paddingLeft: `${12 + 14 * run.depth}px` }}
      onClick={() => select(run)}
      title={`${run.name}${run.func ? ` on ${run.func}` : ""}: ${STATUS_NAMES[run.status]}\n${time(run.wall)}${data.isLive ? "" : `, ${time(run.busy)} of it at work`}`}
      aria-current={run === state.run}
      tabIndex={run === state.run ? 0 : -1}
    >
      <i class={`dot ${STATUS_NAMES[run.status]}`} />
      <span class="name">
        {run.name}
        {run.func && <em>@{run.func}</em>}
      </span>
      {run.remarks.length > 0 && <span class="badge quiet" title="remarks">{run.remarks.length}</span>}
      <span class="took">{time(run.wall)}</span>
      {run.wall > longest / 200 && (
        <i class="bar" style={{ width: `${(100 * run.wall) / longest}%` }}>
          <i style={{ width: `${run.wall ? (100 * Math.min(run.busy, run.wall)) / run.wall : 0}%` }} />
        </i>
      )}
    </button>
  );
  return (
    <section class="column passes" aria-label="Passes">
      <header>
        <h2 title={module?.name}>{module?.name ?? "No module"}</h2>
        <div class="tools">
          <label class="toggle" title="Only passes that changed something (c)">
            <input
              id="changed-only"
              type="checkbox"
              checked={state.changedOnly}
              onChange={(event) => update({ changedOnly: event.currentTarget.checked })}
            />
            changed only
          </label>
          <span class="legend">
            <i class="dot changed" /> changed <i class="dot failed" /> failed
          </span>
        </div>
      </header>
      {shown.length ? (
        <VirtualList
          items={shown}
          height={28}
          render={row}
          active={state.run ? shown.indexOf(state.run) : -1}
          label="Passes"
        />
      ) : (
        <p class="empty">{module?.runs.length ? "No pass changed anything." : "No pass ran on this module."}</p>
      )}
      <footer>
        {module ? `${module.runs.filter((run) => run.status !== Status.Unchanged && run.status !== Status.Running).length} of ${module.runs.length} did something` : ""}
      </footer>
    </section>
  );
}
