// Two texts side by side or in one column, or one text: rows of one height, of which only those in sight are made.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { compare, Diff, folded, isQuiet, lines, Piece, pieces, Row, within, withNumbers } from "./diff";
import { VirtualList } from "./virtual";

const HEIGHT = 20;
const MOST_MARKS = 300;

interface Props {
  before: string;
  after: string;
  unified: boolean;
}

export function DiffView({ before, after, unified }: Props) {
  const diff = useMemo(() => compare(before, after), [before, after]);
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set());
  const [numbers, setNumbers] = useState(false);
  useEffect(() => setOpened(new Set()), [diff]);
  const rows = useMemo(() => {
    const made = folded(numbers ? withNumbers(diff.rows) : diff.rows, opened);
    return unified ? oneColumn(made) : made;
  }, [diff, opened, unified, numbers]);
  const [at, setAt] = useState(-1);
  const changes = useMemo(() => starts(rows), [rows]);
  const scroller = useRef<HTMLElement | null>(null);
  useEffect(() => {
    setAt(-1);
    if (scroller.current) scroller.current.scrollTop = 0;
  }, [diff]);
  useEffect(() => {
    const jump = (event: KeyboardEvent) => {
      if (event.key !== "n" && event.key !== "p") return;
      if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey || event.altKey) return;
      step(event.key === "n" ? 1 : -1);
    };
    addEventListener("keydown", jump);
    return () => removeEventListener("keydown", jump);
  });
  const step = (by: number) => {
    if (!changes.length) return;
    const here = at < 0 ? (by > 0 ? -1 : 0) : changes.findLastIndex((start) => start <= at);
    setAt(changes[(here + by + changes.length) % changes.length]);
  };
  const open = (row: Row) => setOpened(new Set([...opened, row.a]));
  const render = (row: Row, index: number) =>
    row.kind === "gap" ? (
      <button key={index} class="line gap" onClick={() => open(row)}>
        <span>⋯ {row.hidden![2].toLocaleString("en-US")} unchanged lines</span>
      </button>
    ) : (
      <Line key={index} row={row} diff={diff} unified={unified} isHere={index === at} />
    );
  const longest = useMemo(() => Math.max(0, ...longestLines(diff.a), ...longestLines(diff.b)), [diff]);
  return (
    <div class={`diff ${unified ? "unified" : "split"}`}>
      <div class="diffbar">
        <span class="count removed">−{diff.removed.toLocaleString("en-US")}</span>
        <span class="count added">+{diff.added.toLocaleString("en-US")}</span>
        {diff.renumbered > 0 && (
          <label class="toggle" title="Lines that differ only in the numbers of values, such as %3 and %4">
            <input type="checkbox" checked={numbers} onChange={(event) => setNumbers(event.currentTarget.checked)} />
            {diff.renumbered.toLocaleString("en-US")} renumbered
          </label>
        )}
        {diff.isCoarse && <span class="hint">large: compared roughly</span>}
        <span class="space" />
        <button onClick={() => step(-1)} title="Previous change (p)" aria-label="Previous change">
          ↑
        </button>
        <button onClick={() => step(1)} title="Next change (n)" aria-label="Next change">
          ↓
        </button>
      </div>
      <Sideways longest={longest} unified={unified}>
        <VirtualList
          items={rows}
          height={HEIGHT}
          render={render}
          active={at}
          center
          class="code"
          label="Differences"
          role="table"
          onScroller={(element) => (scroller.current = element)}
        />
        <Marks rows={rows} jump={setAt} />
      </Sideways>
    </div>
  );
}

export function TextView({ text }: { text: string }) {
  const all = useMemo(() => lines(text), [text]);
  const render = (line: string, index: number) => (
    <div key={index} class="line">
      <span class="number">{index + 1}</span>
      <code>{paint(pieces(line, []))}</code>
    </div>
  );
  return (
    <div class="diff unified plain">
      <Sideways longest={Math.max(0, ...longestLines(all))} unified>
        <VirtualList items={all} height={HEIGHT} render={render} class="code" label="Text" role="table" />
      </Sideways>
    </div>
  );
}

/** Scroll all lines sideways together: the bar below is as wide as the longest. */
function Sideways({ longest, unified, children }: { longest: number; unified: boolean; children: preact.ComponentChildren }) {
  const ref = useRef<HTMLDivElement>(null);
  const bar = useRef<HTMLDivElement>(null);
  const follow = () => ref.current!.style.setProperty("--shift", `${-bar.current!.scrollLeft}px`);
  const wheel = (event: WheelEvent) => {
    const by = event.deltaX || (event.shiftKey ? event.deltaY : 0);
    if (by) bar.current!.scrollLeft += by;
  };
  useEffect(() => {
    bar.current!.scrollLeft = 0;
    follow();
  }, [longest]);
  return (
    <div class="sideways" ref={ref} onWheel={wheel}>
      <div class="stack">{children}</div>
      <div class="sidebar" ref={bar} onScroll={follow}>
        <div style={{ width: `calc(${longest}ch * ${unified ? 1 : 2} + ${unified ? 120 : 160}px)` }} />
      </div>
    </div>
  );
}

/** Marks beside the scroll bar where something differs. */
function Marks({ rows, jump }: { rows: Row[]; jump: (row: number) => void }) {
  const marks = useMemo(() => {
    const made: { from: number; to: number; kind: string }[] = [];
    const apart = rows.length / MOST_MARKS;
    rows.forEach((row, at) => {
      if (isQuiet(row) || row.kind === "gap") return;
      const last = made.at(-1);
      if (last && at - last.to <= apart + 1 && last.kind === row.kind) last.to = at;
      else if (!last || at - last.to >= apart) made.push({ from: at, to: at, kind: row.kind });
    });
    return made;
  }, [rows]);
  const share = (row: number) => `${(100 * row) / Math.max(rows.length, 1)}%`;
  return (
    <div class="marks" aria-hidden="true">
      {marks.map((mark) => (
        <i
          key={mark.from}
          class={mark.kind}
          style={{ top: share(mark.from), height: `max(2px, ${share(mark.to - mark.from + 1)})` }}
          onClick={() => jump(mark.from)}
        />
      ))}
    </div>
  );
}

function Line({ row, diff, unified, isHere }: { row: Row; diff: Diff; unified: boolean; isHere: boolean }) {
  const [left, right] = [diff.a[row.a], diff.b[row.b]];
  const [inA, inB] = row.kind === "changed" || row.kind === "renumbered" ? within(left, right) : [[], []];
  const kind = `${isHere ? "here" : ""} ${row.kind === "renumbered" ? "renumbered" : ""}`;
  if (unified) {
    const isRemoved = row.kind === "removed" || (row.kind === "changed" && (row as Half).half === "a");
    const isAdded = row.kind === "added" || (row.kind === "changed" && (row as Half).half === "b");
    const sort = isRemoved ? "removed" : isAdded ? "added" : "";
    return (
      <div class={`line ${sort} ${kind}`}>
        <span class="number">{isAdded ? "" : row.a + 1}</span>
        <span class="number">{isRemoved ? "" : row.b + 1}</span>
        <span class="sign">{isRemoved ? "−" : isAdded ? "+" : ""}</span>
        <code>{paint(isRemoved ? pieces(left, inA) : pieces(right, inB))}</code>
      </div>
    );
  }
  const isSame = isQuiet(row);
  return (
    <div class={`line ${kind}`} role="row">
      <div class={`half ${isSame ? "" : row.a < 0 ? "none" : "removed"}`} role="cell">
        <span class="number">{row.a < 0 ? "" : row.a + 1}</span>
        <code>{row.a < 0 ? "" : paint(pieces(left, inA))}</code>
      </div>
      <div class={`half ${isSame ? "" : row.b < 0 ? "none" : "added"}`} role="cell">
        <span class="number">{row.b < 0 ? "" : row.b + 1}</span>
        <code>{row.b < 0 ? "" : paint(pieces(right, inB))}</code>
      </div>
    </div>
  );
}

function paint(all: Piece[]) {
  return all.map((piece, at) => {
    const style = [piece.token, piece.differs ? "differs" : ""].filter(Boolean).join(" ");
    return style ? (
      <span key={at} class={style}>
        {piece.text}
      </span>
    ) : (
      piece.text
    );
  });
}

type Half = Row & { half: "a" | "b" };

/** Return the rows for one column: of changed lines first the old ones, then the new ones. */
function oneColumn(rows: Row[]): Row[] {
  const made: Row[] = [];
  for (let at = 0; at < rows.length; ) {
    let end = at;
    while (end < rows.length && !isQuiet(rows[end]) && rows[end].kind !== "gap") end++;
    if (end === at) {
      made.push(rows[at++]);
      continue;
    }
    const block = rows.slice(at, end);
    for (const row of block) if (row.kind !== "added") made.push({ ...row, half: "a" } as Half);
    for (const row of block) if (row.kind !== "removed") made.push({ ...row, half: "b" } as Half);
    at = end;
  }
  return made;
}

/** Return where changes begin. */
function starts(rows: Row[]): number[] {
  const isChange = (row: Row | undefined) => row !== undefined && !isQuiet(row) && row.kind !== "gap";
  return rows.flatMap((row, at) => (isChange(row) && !isChange(rows[at - 1]) ? [at] : []));
}

function* longestLines(all: string[]): Generator<number> {
  let longest = 0;
  for (const line of all) longest = Math.max(longest, line.length);
  yield longest;
}
