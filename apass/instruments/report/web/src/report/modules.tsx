// The list of modules: searched, sorted, failures marked.

import { Data, Module, Status, STATUS_NAMES } from "../shared/model";
import { count, time } from "../shared/format";
import { Sort, SORTS, State, Update } from "./store";
import { VirtualList } from "../shared/virtual";

interface Props {
  data: Data;
  state: State;
  update: Update;
  shown: Module[];
  select: (module: Module) => void;
}

export function Modules({ data, state, update, shown, select }: Props) {
  const longest = Math.max(...data.modules.map((module) => module.wall), 1);
  const row = (module: Module) => (
    <button
      key={module.id}
      class={`row module ${module === state.module ? "active" : ""}`}
      onClick={() => select(module)}
      title={`${module.name}\n${STATUS_NAMES[module.status]}, ${time(module.wall)}`}
      aria-current={module === state.module}
      tabIndex={module === state.module ? 0 : -1}
    >
      <i class={`dot ${STATUS_NAMES[module.status]}`} />
      <span class="name">
        <bdi>{module.name}</bdi>
      </span>
      {module.changed > 0 && <span class="badge">{module.changed}</span>}
      <span class="took">{time(module.wall)}</span>
      <i class="bar" style={{ width: `${(100 * module.wall) / longest}%` }} />
    </button>
  );
  return (
    <section class="column modules" aria-label="Modules">
      <header>
        <label class="search">
          <Magnifier />
          <input
            id="search"
            type="search"
            placeholder="Search"
            title="Search for modules by name, by pass or by error"
            value={state.query}
            onInput={(event) => update({ query: event.currentTarget.value })}
          />
          <kbd>/</kbd>
        </label>
        <div class="tools">
          <select
            aria-label="Sort modules"
            value={state.sort}
            onChange={(event) => update({ sort: event.currentTarget.value as Sort })}
          >
            {SORTS.map((one) => (
              <option key={one} value={one}>
                {one === "failures first" ? "Failures first" : `Sort by ${one}`}
              </option>
            ))}
          </select>
          <label class="toggle" title="Only modules that failed (f)">
            <input
              id="failed-only"
              type="checkbox"
              checked={state.failedOnly}
              onChange={(event) => update({ failedOnly: event.currentTarget.checked })}
            />
            failed only
          </label>
        </div>
      </header>
      {shown.length ? (
        <VirtualList
          items={shown}
          height={34}
          render={row}
          active={state.module ? shown.indexOf(state.module) : -1}
          label="Modules"
        />
      ) : (
        <p class="empty">No module matches.</p>
      )}
      <footer>
        {shown.length === data.modules.length
          ? count(shown.length, "module")
          : `${shown.length} of ${count(data.modules.length, "module")}`}
      </footer>
    </section>
  );
}

function Magnifier() {
  return (
    <svg viewBox="0 0 16 16" aria-hidden="true">
      <circle cx="7" cy="7" r="4.5" />
      <path d="M10.5 10.5 14 14" />
    </svg>
  );
}

export function isFailed(status: Status): boolean {
  return status >= Status.Failed;
}
