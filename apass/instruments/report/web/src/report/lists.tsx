// What is slow, what passes had to say, and what failed, over all modules.

import { useMemo, useState } from "preact/hooks";
import { FailureCard } from "../shared/detail";
import { Body, Data, Failure, Module, Remark, REMARK_KINDS, Run, Status, STATUS_NAMES } from "../shared/model";
import { count, time } from "../shared/format";
import { VirtualList } from "../shared/virtual";

interface Props {
  data: Data;
  open: (module: Module, run?: Run | null) => void;
}

const MOST = 200;

interface Total {
  name: string;
  calls: number;
  changed: number;
  failed: number;
  wall: number;
  busy: number;
  longest: Run;
}

function totals(runs: Run[]): Total[] {
  const found = new Map<string, Total>();
  for (const run of runs) {
    if (run.children.length) continue;
    let total = found.get(run.name);
    if (!total) found.set(run.name, (total = { name: run.name, calls: 0, changed: 0, failed: 0, wall: 0, busy: 0, longest: run }));
    total.calls++;
    total.changed += Number(run.status === Status.Changed);
    total.failed += Number(run.status === Status.Failed);
    total.wall += run.wall;
    total.busy += run.busy;
    if (run.wall > total.longest.wall) total.longest = run;
  }
  return [...found.values()].sort((a, b) => b.wall - a.wall);
}

export function Slowest({ data, open }: Props) {
  const passes = useMemo(() => totals(data.runs), [data]);
  const runs = useMemo(
    () => data.runs.filter((run) => !run.children.length).sort((a, b) => b.wall - a.wall).slice(0, MOST),
    [data],
  );
  const bodies = useMemo(() => [...data.bodies].sort((a, b) => b.wall - a.wall).slice(0, MOST), [data]);
  const longest = Math.max(passes[0]?.wall ?? 0, 1);
  return (
    <section class="wide" aria-label="Slowest">
      <div class="card">
        <h2>Passes, over all modules</h2>
        <table>
          <thead>
            <tr>
              <th>pass</th>
              <th class="share">at work and waiting</th>
              <th class="n">total</th>
              <th class="n">at work</th>
              <th class="n">calls</th>
              <th class="n">mean</th>
              <th class="n">changed</th>
              <th class="n">failed</th>
              <th class="n">longest</th>
            </tr>
          </thead>
          <tbody>
            {passes.map((one) => (
              <tr key={one.name} onClick={() => open(one.longest.module, one.longest)} class="link" title="Open the longest">
                <td>{one.name}</td>
                <td class="share">
                  <i style={{ width: `${(100 * one.wall) / longest}%` }}>
                    <i style={{ width: `${one.wall ? (100 * Math.min(one.busy, one.wall)) / one.wall : 0}%` }} />
                  </i>
                </td>
                <td class="n">{time(one.wall)}</td>
                <td class="n">{time(one.busy)}</td>
                <td class="n">{one.calls.toLocaleString("en-US")}</td>
                <td class="n">{time(one.wall / one.calls)}</td>
                <td class="n">{one.changed.toLocaleString("en-US")}</td>
                <td class={`n ${one.failed ? "bad" : ""}`}>{one.failed.toLocaleString("en-US")}</td>
                <td class="n">{time(one.longest.wall)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div class="pair">
        <div class="card">
          <h2>Single runs</h2>
          <Table rows={runs} name={(run) => run.name} where={(run) => run.module.name} open={(run) => open(run.module, run)} />
        </div>
        <div class="card">
          <h2>Functions</h2>
          {bodies.length ? (
            <Table
              rows={bodies}
              name={(body) => `@${body.func}`}
              where={(body) => `${body.run.name} · ${body.run.module.name}`}
              open={(body) => open(body.run.module, body.run)}
            />
          ) : (
            <p class="empty">No work on a function took long, changed anything or failed.</p>
          )}
        </div>
      </div>
    </section>
  );
}

interface TableProps<T> {
  rows: T[];
  name: (row: T) => string;
  where: (row: T) => string;
  open: (row: T) => void;
}

function Table<T extends Run | Body>({ rows, name, where, open }: TableProps<T>) {
  return (
    <table class="fixed">
      <thead>
        <tr>
          <th>name</th>
          <th>where</th>
          <th class="n">wall</th>
          <th class="n">at work</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row, at) => (
          <tr key={at} class="link" onClick={() => open(row)}>
            <td title={name(row)}>{name(row)}</td>
            <td class="quiet" title={where(row)}>
              {where(row)}
            </td>
            <td class="n">{time(row.wall)}</td>
            <td class="n">{time(row.busy)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function Remarks({ data, open }: Props) {
  const [query, setQuery] = useState("");
  const [hidden, setHidden] = useState<ReadonlySet<number>>(new Set());
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = useMemo(
    () =>
      data.remarks.filter((remark) => {
        const text = `${remark.pass} ${remark.name} ${remark.message} ${remark.func} ${remark.module?.name ?? ""}`;
        return !hidden.has(remark.kind) && words.every((word) => text.toLowerCase().includes(word));
      }),
    [data, query, hidden],
  );
  const flip = (kind: number) => {
    const next = new Set(hidden);
    if (!next.delete(kind)) next.add(kind);
    setHidden(next);
  };
  const row = (remark: Remark, at: number) => (
    <button
      key={at}
      class="row said"
      onClick={() => remark.module && open(remark.module, remark.run)}
      title={`${remark.message}\n${remark.place}`}
    >
      <span class={`kind ${REMARK_KINDS[remark.kind]}`}>{REMARK_KINDS[remark.kind]}</span>
      <span class="pass">{remark.pass}</span>
      <b>{remark.name}</b>
      <span class="message">{remark.message}</span>
      <span class="quiet">{[remark.module?.name, remark.func && `@${remark.func}`].filter(Boolean).join(" ")}</span>
    </button>
  );
  return (
    <section class="wide flush" aria-label="Remarks">
      <header class="filters">
        <label class="search">
          <input
            id="remark-search"
            type="search"
            placeholder="Search remarks"
            value={query}
            onInput={(event) => setQuery(event.currentTarget.value)}
          />
        </label>
        {REMARK_KINDS.map((kind, at) => (
          <button key={kind} class={`kind ${kind} ${hidden.has(at) ? "off" : ""}`} aria-pressed={!hidden.has(at)} onClick={() => flip(at)}>
            {kind} {data.remarks.filter((remark) => remark.kind === at).length}
          </button>
        ))}
        <span class="quiet">{count(shown.length, "remark")}</span>
      </header>
      {shown.length ? (
        <VirtualList items={shown} height={30} render={row} label="Remarks" />
      ) : (
        <p class="empty">{data.remarks.length ? "No remark matches." : "No pass made a remark."}</p>
      )}
    </section>
  );
}

export function Failures({ data, open }: Props) {
  const groups = useMemo(() => {
    const found = new Map<Failure, Module[]>();
    for (const module of data.modules)
      if (module.failure) found.set(module.failure, [...(found.get(module.failure) ?? []), module]);
    const alike = new Map<string, { failure: Failure; modules: Module[] }>();
    for (const [failure, modules] of found) {
      const key = `${failure.kind}: ${failure.message}`;
      const group = alike.get(key);
      if (group) group.modules.push(...modules);
      else alike.set(key, { failure, modules });
    }
    return [...alike.values()].sort((a, b) => b.modules.length - a.modules.length);
  }, [data]);
  if (!groups.length) return <p class="empty">No module failed.</p>;
  return (
    <section class="wide" aria-label="Failures">
      {groups.slice(0, MOST).map(({ failure, modules }) => (
        <div class="card" key={failure.id}>
          <FailureCard failure={failure} />
          <p class="where">
            <b>{count(modules.length, "module")}</b>
            {modules.slice(0, 24).map((module) => (
              <button key={module.id} class="chip" onClick={() => open(module)}>
                {module.name}
                <small>{module.runs.find((run) => !run.children.length && run.status === Status.Failed)?.name ?? STATUS_NAMES[module.status]}</small>
              </button>
            ))}
            {modules.length > 24 && <span class="quiet">and {modules.length - 24} more</span>}
          </p>
        </div>
      ))}
      {groups.length > MOST && <p class="note">and {groups.length - MOST} more kinds of failure</p>}
    </section>
  );
}
