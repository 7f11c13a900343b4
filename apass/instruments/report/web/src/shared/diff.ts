// Two texts side by side: which lines belong together, and what differs within a line.

import { diffArrays, diffWordsWithSpace } from "diff";
import { cut, Span } from "./align";

export interface Row {
  kind: "same" | "renumbered" | "changed" | "removed" | "added" | "gap";
  a: number; // the line on the left, from 0; -1 for none
  b: number; // the line on the right
  hidden?: number; // of a gap: how many rows it stands for
  what?: "unchanged" | "added" | "removed"; // of a gap
}

export interface Diff {
  a: string[];
  b: string[];
  rows: Row[]; // all lines, without gaps
  removed: number;
  added: number;
  renumbered: number; // lines that differ in nothing but the numbers of values
  isCoarse: boolean; // it would have taken too long to be exact
}

const TIMEOUT = 800; // milliseconds
const MANY = 1500; // lines; beyond, texts are cut at lines that both have once, and compared piece by piece
const MOST_EDITS = 1500; // lines added and removed in a piece that is compared exactly
const CONTEXT = 3;
const SHOWN_OF_RUN = 10; // lines at both ends of a long run of added or removed lines
const MOST_PAIRED = 12_000; // pairs of lines of a block among which the best are looked for
const ALIKE = 0.4; // how much two lines must have in common to stand beside each other
const LONGEST = 4000; // a longer line is not compared word by word

export function lines(text: string): string[] {
  const made = text.split("\n");
  if (made.at(-1) === "") made.pop();
  return made;
}

/** Return a line without the numbers of values, which change with every value that comes or goes before. */
function unnumbered(line: string): string {
  return line.replace(/%\d+\b/g, "%");
}

export function compare(before: string, after: string): Diff {
  const [a, b] = [lines(before), lines(after)];
  const [keysA, keysB] = [a.map(unnumbered), b.map(unnumbered)];
  let head = 0;
  while (head < a.length && head < b.length && keysA[head] === keysB[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && keysA.at(-1 - tail) === keysB.at(-1 - tail)) tail++;
  const rows: Row[] = [];
  for (let at = 0; at < head; at++) rows.push({ kind: "same", a: at, b: at });
  const isCoarse = !addMiddle(rows, keysA, keysB, head, a.length - tail, b.length - tail);
  for (let at = tail; at > 0; at--) rows.push({ kind: "same", a: a.length - at, b: b.length - at });
  for (const row of rows) if (row.kind === "same" && a[row.a] !== b[row.b]) row.kind = "renumbered";
  const count = (...kinds: Row["kind"][]) => rows.filter((row) => kinds.includes(row.kind)).length;
  return {
    a,
    b,
    rows,
    removed: count("removed", "changed"),
    added: count("added", "changed"),
    renumbered: count("renumbered"),
    isCoarse,
  };
}

/** Return the rows with what is merely renumbered as changed. */
export function withNumbers(rows: Row[]): Row[] {
  return rows.map((row) => (row.kind === "renumbered" ? { ...row, kind: "changed" } : row));
}

/** Add the rows of what is neither the beginning nor the end that both have; false if that is not exact. */
function addMiddle(rows: Row[], a: string[], b: string[], head: number, endA: number, endB: number): boolean {
  const whole: Span = [head, endA, head, endB];
  const spans = endA + endB - 2 * head > MANY ? cut(a, b, whole) : [whole];
  const until = performance.now() + TIMEOUT;
  return spans.map((span) => addSpan(rows, a, b, span, until - performance.now())).every(Boolean);
}

function addSpan(rows: Row[], a: string[], b: string[], [headA, endA, headB, endB]: Span, time: number): boolean {
  const options = { timeout: Math.max(1, time), maxEditLength: MOST_EDITS };
  const parts = diffArrays(a.slice(headA, endA), b.slice(headB, endB), options);
  if (!parts) {
    addBlock(rows, a, b, headA, endA, headB, endB);
    return false;
  }
  let [atA, atB, fromA, fromB] = [headA, headB, headA, headB];
  for (const part of parts) {
    if (part.removed) atA += part.value.length;
    else if (part.added) atB += part.value.length;
    else {
      addBlock(rows, a, b, fromA, atA, fromB, atB);
      for (const _ of part.value) rows.push({ kind: "same", a: atA++, b: atB++ });
      [fromA, fromB] = [atA, atB];
    }
  }
  addBlock(rows, a, b, fromA, atA, fromB, atB);
  return true;
}

/** Add the rows of lines that were replaced: those that are alike beside each other. */
function addBlock(rows: Row[], a: string[], b: string[], fromA: number, endA: number, fromB: number, endB: number) {
  let [atA, atB] = [fromA, fromB];
  for (const [x, y] of [...pairs(a.slice(fromA, endA), b.slice(fromB, endB)), [endA - fromA, endB - fromB]]) {
    while (atA < fromA + x) rows.push({ kind: "removed", a: atA++, b: -1 });
    while (atB < fromB + y) rows.push({ kind: "added", a: -1, b: atB++ });
    if (atA < endA && atB < endB) rows.push({ kind: "changed", a: atA++, b: atB++ });
  }
}

/** Return which lines of two blocks stand beside each other: as many as are alike, in order. */
function pairs(a: string[], b: string[]): [number, number][] {
  if (!a.length || !b.length) return [];
  if (a.length * b.length > MOST_PAIRED) {
    return a.slice(0, b.length).map((_, at) => [at, at] as [number, number]);
  }
  const [bagsA, bagsB] = [a.map(bag), b.map(bag)];
  const best = Array.from({ length: a.length + 1 }, () => new Float64Array(b.length + 1));
  const score = (x: number, y: number) => {
    const alike = likeness(bagsA[x], bagsB[y]);
    return alike >= ALIKE || (a.length === 1 && b.length === 1) ? alike + 0.01 : -1;
  };
  for (let x = a.length - 1; x >= 0; x--)
    for (let y = b.length - 1; y >= 0; y--)
      best[x][y] = Math.max(best[x + 1][y], best[x][y + 1], best[x + 1][y + 1] + score(x, y));
  const found: [number, number][] = [];
  for (let x = 0, y = 0; x < a.length && y < b.length; ) {
    if (best[x][y] === best[x + 1][y + 1] + score(x, y)) found.push([x++, y++]);
    else if (best[x][y] === best[x + 1][y]) x++;
    else y++;
  }
  return found;
}

function bag(line: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const word of line.match(/\w+|[^\s\w]/g) ?? []) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}

function likeness(a: Map<string, number>, b: Map<string, number>): number {
  let [common, total] = [0, 0];
  for (const [word, times] of a) {
    common += 2 * Math.min(times, b.get(word) ?? 0);
    total += times;
  }
  for (const times of b.values()) total += times;
  return total ? common / total : 1;
}

/** Tell whether a row is nothing to look at. */
export function isQuiet(row: Row): boolean {
  return row.kind === "same" || row.kind === "renumbered";
}

/** Return what names a row, also where its kind differs: the lines on both sides. */
export function keyOf(row: Row): string {
  return `${row.a}:${row.b}`;
}

/** Return the rows with long stretches of one kind as gaps, but for those that were opened. */
export function folded(rows: Row[], opened: ReadonlySet<string>): Row[] {
  const made: Row[] = [];
  for (let at = 0; at < rows.length; ) {
    const what = foldedAs(rows[at]);
    let end = at + 1;
    while (end < rows.length && what && foldedAs(rows[end]) === what) end++;
    const around = what === "unchanged" ? CONTEXT : SHOWN_OF_RUN;
    const first = what === "unchanged" && at === 0 ? at : at + around;
    const last = what === "unchanged" && end === rows.length ? end : end - around;
    if (what && last - first >= 4 && !opened.has(keyOf(rows[first]))) {
      for (; at < first; at++) made.push(rows[at]);
      made.push({ kind: "gap", a: rows[first].a, b: rows[first].b, hidden: last - first, what });
      at = last;
    }
    for (; at < end; at++) made.push(rows[at]);
  }
  return made;
}

function foldedAs(row: Row): Row["what"] {
  if (isQuiet(row)) return "unchanged";
  return row.kind === "added" || row.kind === "removed" ? row.kind : undefined;
}

/** Return the stretches of both lines that differ, as start and end in turn. */
export function within(a: string, b: string): [number[], number[]] {
  const [inA, inB]: [number[], number[]] = [[], []];
  if (a.length > LONGEST || b.length > LONGEST || likeness(bag(a), bag(b)) < ALIKE) return [inA, inB];
  let [atA, atB] = [0, 0];
  for (const part of diffWordsWithSpace(a, b)) {
    const size = part.value.length;
    if (part.removed) inA.push(atA, (atA += size));
    else if (part.added) inB.push(atB, (atB += size));
    else [atA, atB] = [atA + size, atB + size];
  }
  return [inA, inB];
}

const TOKENS =
  /("(?:[^"\\]|\\.)*"?)|(\/\*.*?\*\/|\/\/.*$|#.*$)|([%@][\w.$-]+)|(\b(?:\d[\d_]*(?:\.\d*)?(?:e[+-]?\d+)?[a-z]?\d*)\b)|(\b(?:fn|def|let|if|else|match|type|extern|func|module|return|true|false|None|meta|Tensor|float|int|ir_version|opset_import)\b)/gi;
const CLASSES = ["", "s", "c", "v", "n", "k"];

export interface Piece {
  text: string;
  token: string;
  differs: boolean;
  isFound: boolean;
}

/** Tell whether a line has what is looked for, in lower case. */
export function has(line: string | undefined, find: string): boolean {
  return line !== undefined && line.toLowerCase().includes(find);
}

/** Return where a line has what is looked for, as start and end in turn. */
function places(line: string, find: string): number[] {
  const made: number[] = [];
  if (!find) return made;
  const lower = line.toLowerCase();
  for (let at = lower.indexOf(find); at >= 0; at = lower.indexOf(find, at + find.length)) made.push(at, at + find.length);
  return made;
}

/** Cut a line where its colour changes. */
export function pieces(line: string, differing: number[], find = ""): Piece[] {
  const cuts: [number, string][] = []; // from where on, which colour
  if (line.length <= LONGEST)
    for (const match of line.matchAll(TOKENS)) {
      const group = match.findIndex((value, at) => at > 0 && value !== undefined);
      cuts.push([match.index, CLASSES[group]], [match.index + match[0].length, ""]);
    }
  const found = places(line, find);
  const bounds = [...new Set([0, line.length, ...differing, ...found, ...cuts.map(([at]) => at)])].sort((x, y) => x - y);
  const made: Piece[] = [];
  let [token, cut, edge, place] = ["", 0, 0, 0];
  for (let at = 0; at + 1 < bounds.length; at++) {
    while (cut < cuts.length && cuts[cut][0] <= bounds[at]) token = cuts[cut++][1];
    while (edge < differing.length && differing[edge] <= bounds[at]) edge++;
    while (place < found.length && found[place] <= bounds[at]) place++;
    const text = line.slice(bounds[at], bounds[at + 1]);
    made.push({ text, token, differs: edge % 2 === 1, isFound: place % 2 === 1 });
  }
  return made;
}
