// Two texts side by side or in one column, or one text: of their rows only those in sight are made.

import { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { compare, Diff, folded, has, isQuiet, keyOf, lines, Piece, pieces, Row, within, withNumbers } from "./diff";
import { VirtualList } from "./virtual";

const HEIGHT = 20;
const MOST_MARKS = 300;

interface Props {
  before: string;
  after: string;
  unified: boolean;
  wrap: boolean;
  find: string;
}

export function DiffView({ before, after, unified, wrap, find: sought }: Props) {
  const find = sought.toLowerCase();
  const diff = useMemo(() => compare(before, after), [before, after]);
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const [numbers, setNumbers] = useState(false);
  // Before the next key or click: an effect after painting would undo what that does.
  useLayoutEffect(() => setOpened(new Set()), [diff]);
  const rows = useMemo(() => {
    const all = numbers ? withNumbers(diff.rows) : diff.rows;
    const made = find ? all : folded(all, opened);
    return unified ? oneColumn(made) : made;
  }, [diff, opened, unified, numbers, find]);
  const stops = useMemo(() => {
    if (!find) return starts(rows);
    return rows.flatMap((row, at) => (has(diff.a[row.a], find) || has(diff.b[row.b], find) ? [at] : []));
  }, [rows, find]);
  const [at, setAt, step] = useStops(stops, find);
  const scroller = useRef<HTMLElement | null>(null);
  useEffect(() => {
    if (scroller.current && !find) scroller.current.scrollTop = 0;
  }, [diff]);
  const open = (row: Row) => setOpened(new Set([...opened, keyOf(row)]));
  const render = (row: Row, index: number) =>
    row.kind === "gap" ? (
      <button key={index} class={`line gap ${row.what}`} onClick={() => open(row)}>
        <span>
          ⋯ {row.hidden!.toLocaleString("en-US")} {row.what} lines
        </span>
      </button>
    ) : (
      <Line key={index} row={row} diff={diff} unified={unified} isHere={index === at} find={find} />
    );
  const longest = useMemo(() => Math.max(longestLine(diff.a), longestLine(diff.b)), [diff]);
  // A text opens at the beginning of its lines; only a step to a change scrolls sideways.
  const here = rows[at];
  const [columns, watch] = useColumns(unified ? 1 : 2);
  const onScroller = (element: HTMLElement | null) => watch((scroller.current = element));
  const sizes = useMemo(
    () =>
      wrap && columns
        ? rows.map((row) =>
            row.kind === "gap" ? 1 : Math.max(linesOf(diff.a[row.a] ?? "", columns), linesOf(diff.b[row.b] ?? "", columns)),
          )
        : undefined,
    [rows, wrap, columns],
  );
  const column = here ? (find ? columnOf(diff, here, find) : columnOfChange(diff, here)) : -1;
  return (
    <div class={`diff ${unified ? "unified" : "split"} ${wrap ? "wrapped" : ""}`}>
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
        <Steps stops={stops} at={at} step={step} find={find} />
      </div>
      <Sideways longest={wrap ? 0 : longest} unified={unified} row={here} column={column}>
        <VirtualList
          items={rows}
          height={HEIGHT}
          sizes={sizes}
          render={render}
          active={at}
          center
          class="code"
          label="Differences"
          role="group"
          onScroller={onScroller}
        />
        <Marks rows={rows} jump={setAt} />
      </Sideways>
    </div>
  );
}

export function TextView({ text, wrap, find: sought }: { text: string; wrap: boolean; find: string }) {
  const find = sought.toLowerCase();
  const all = useMemo(() => lines(text), [text]);
  const stops = useMemo(() => (find ? all.flatMap((line, at) => (has(line, find) ? [at] : [])) : []), [all, find]);
  const [at, , step] = useStops(stops, find);
  const [columns, watch] = useColumns(1);
  const sizes = useMemo(
    () => (wrap && columns ? all.map((line) => linesOf(line, columns)) : undefined),
    [all, wrap, columns],
  );
  const render = (line: string, index: number) => (
    <div key={index} class={`line ${index === at ? "here" : ""}`}>
      <span class="number">{index + 1}</span>
      <code>{paint(pieces(line, [], find))}</code>
    </div>
  );
  return (
    <div class={`diff unified plain ${wrap ? "wrapped" : ""}`}>
      {find && (
        <div class="diffbar">
          <span class="space" />
          <Steps stops={stops} at={at} step={step} find={find} />
        </div>
      )}
      <Sideways longest={wrap ? 0 : longestLine(all)} unified column={find && at >= 0 ? all[at].toLowerCase().indexOf(find) : -1}>
        <VirtualList
          items={all}
          height={HEIGHT}
          sizes={sizes}
          render={render}
          active={at}
          center
          class="code"
          label="Text"
          role="group"
          onScroller={watch}
        />
      </Sideways>
    </div>
  );
}

/** How many characters of a line have room side by side, and what watches the element for that. */
function useColumns(sides: number): [number, (element: HTMLElement | null) => void] {
  const [columns, setColumns] = useState(0);
  const element = useRef<HTMLElement | null>(null);
  useLayoutEffect(() => {
    const look = () => {
      const code = element.current?.querySelector<HTMLElement>(".line code");
      if (!code) return;
      const probe = document.createElement("span");
      probe.textContent = "0".repeat(100);
      probe.style.cssText = "position: absolute; visibility: hidden; white-space: pre";
      code.parentElement!.append(probe);
      const wide = probe.getBoundingClientRect().width / 100;
      probe.remove();
      setColumns(Math.max(1, Math.floor(code.clientWidth / wide)));
    };
    look();
    const observer = new ResizeObserver(look);
    if (element.current) observer.observe(element.current);
    return () => observer.disconnect();
  }, [sides]);
  return [columns, (value) => (element.current = value)];
}

const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]/g;

/** Return in how many lines a text of one line is shown. */
function linesOf(text: string, columns: number): number {
  const tabs = text.split("\t").length - 1;
  const wide = text.length < columns / 2 ? 0 : (text.match(WIDE)?.length ?? 0);
  return Math.max(1, Math.ceil((text.length + wide + 3 * tabs) / columns));
}

/** The row to look at, and how to go from one stop to the next: by n and p, and by Enter where they are looked for. */
function useStops(stops: number[], find: string): [number, (at: number) => void, (by: number) => void] {
  const [at, setAt] = useState(-1);
  useLayoutEffect(() => setAt(find ? (stops[0] ?? -1) : -1), [stops, find]);
  const step = (by: number) => {
    if (!stops.length) return;
    const here = at < 0 ? (by > 0 ? -1 : 0) : stops.findLastIndex((stop) => stop <= at);
    setAt(stops[(here + by + stops.length) % stops.length]);
  };
  useLayoutEffect(() => {
    const jump = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const isFinding = event.target instanceof HTMLInputElement && event.target.id === "find";
      if (isFinding && event.key === "Enter") step(event.shiftKey ? -1 : 1);
      else if (!(event.target instanceof HTMLInputElement) && event.key === "n") step(1);
      else if (!(event.target instanceof HTMLInputElement) && event.key === "p") step(-1);
    };
    addEventListener("keydown", jump);
    return () => removeEventListener("keydown", jump);
  });
  return [at, setAt, step];
}

function Steps({ stops, at, step, find }: { stops: number[]; at: number; step: (by: number) => void; find: string }) {
  const what = find ? "match" : "change";
  return (
    <>
      {find && (
        <span class="found-count">
          {stops.length ? `${stops.indexOf(at) + 1} of ${stops.length.toLocaleString("en-US")} lines` : "not found"}
        </span>
      )}
      <button onClick={() => step(-1)} title={`Previous ${what} (p)`} aria-label={`Previous ${what}`}>
        ↑
      </button>
      <button onClick={() => step(1)} title={`Next ${what} (n)`} aria-label={`Next ${what}`}>
        ↓
      </button>
    </>
  );
}

/** Scroll all lines sideways together: the bar below is as wide as the longest. */
interface SidewaysProps {
  longest: number; // characters
  unified: boolean;
  row?: Row; // the row that it is in: another one may have it in the same place
  column: number; // a character to bring into sight; -1 for none
  children: ComponentChildren;
}

function Sideways({ longest, unified, row, column, children }: SidewaysProps) {
  const ref = useRef<HTMLDivElement>(null);
  const bar = useRef<HTMLDivElement>(null);
  const [sides, edge] = unified ? [1, 120] : [2, 160];
  const follow = () => ref.current!.style.setProperty("--shift", `${-bar.current!.scrollLeft}px`);
  const wheel = (event: WheelEvent) => {
    const by = event.deltaX || (event.shiftKey ? event.deltaY : 0);
    if (by) bar.current!.scrollLeft += by;
  };
  useEffect(() => {
    bar.current!.scrollLeft = 0;
    follow();
  }, [longest]);
  useEffect(() => {
    if (column < 0 || !longest) return;
    const element = bar.current!;
    const wide = (element.firstElementChild as HTMLElement).offsetWidth;
    const at = (column * (wide - edge)) / (longest * sides);
    const shown = (element.clientWidth - edge) / sides;
    if (at < 0.8 * shown) element.scrollLeft = 0;
    else if (at < element.scrollLeft || at > element.scrollLeft + 0.8 * shown) element.scrollLeft = at - shown / 3;
  }, [row, column, longest, unified]);
  return (
    <div class="sideways" ref={ref} onWheel={wheel}>
      <div class="stack">{children}</div>
      <div class="sidebar" ref={bar} onScroll={follow}>
        <div style={{ width: `calc(${longest * sides}ch + ${edge}px)` }} />
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
      const kind = row.what ?? row.kind;
      if (isQuiet(row) || kind === "unchanged") return;
      const last = made.at(-1);
      if (last && at - last.to <= apart + 1 && last.kind === kind) last.to = at;
      else if (!last || at - last.to >= apart) made.push({ from: at, to: at, kind });
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

interface LineProps {
  row: Row;
  diff: Diff;
  unified: boolean;
  isHere: boolean;
  find: string;
}

function Line({ row, diff, unified, isHere, find }: LineProps) {
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
        <code>{paint(isRemoved ? pieces(left, inA, find) : pieces(right, inB, find))}</code>
      </div>
    );
  }
  const isSame = isQuiet(row);
  return (
    <div class={`line ${kind}`}>
      <div class={`half ${isSame ? "" : row.a < 0 ? "none" : "removed"}`}>
        <span class="number">{row.a < 0 ? "" : row.a + 1}</span>
        <code>{row.a < 0 ? "" : paint(pieces(left, inA, find))}</code>
      </div>
      <div class={`half ${isSame ? "" : row.b < 0 ? "none" : "added"}`}>
        <span class="number">{row.b < 0 ? "" : row.b + 1}</span>
        <code>{row.b < 0 ? "" : paint(pieces(right, inB, find))}</code>
      </div>
    </div>
  );
}

function paint(all: Piece[]) {
  return all.map((piece, at) => {
    const style = [piece.token, piece.differs ? "differs" : "", piece.isFound ? "found" : ""].filter(Boolean).join(" ");
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

/** Return where in a row the text that is looked for stands; -1 if nowhere. */
function columnOf(diff: Diff, row: Row, find: string): number {
  return Math.max(...[diff.a[row.a], diff.b[row.b]].map((line) => line?.toLowerCase().indexOf(find) ?? -1));
}

/** Return where a line begins to differ from the one beside it: 0 for a line that has none. */
function columnOfChange(diff: Diff, row: Row): number {
  if (row.kind !== "changed") return 0;
  const [[inA], [inB]] = within(diff.a[row.a], diff.b[row.b]);
  return Math.min(inA ?? inB ?? 0, inB ?? inA ?? 0);
}

/** Return where changes begin. */
function starts(rows: Row[]): number[] {
  const isChange = (row: Row | undefined) => row !== undefined && !isQuiet(row) && row.what !== "unchanged";
  return rows.flatMap((row, at) => (isChange(row) && !isChange(rows[at - 1]) ? [at] : []));
}

function longestLine(all: string[]): number {
  return all.reduce((longest, line) => Math.max(longest, line.length), 0);
}
