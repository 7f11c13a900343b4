// Which lines of two long texts are the same, where an exact answer would take too long: patience diff's anchors.

export type Span = [fromA: number, endA: number, fromB: number, endB: number];

/** Return the places of lines that each text has just once, as many as are in the same order in both. */
function anchors(a: string[], b: string[], [fromA, endA, fromB, endB]: Span): [number, number][] {
  const inA = once(a, fromA, endA);
  const inB = once(b, fromB, endB);
  const common: [number, number][] = [];
  for (const [line, at] of inA) {
    const other = inB.get(line);
    if (at >= 0 && other !== undefined && other >= 0) common.push([at, other]);
  }
  return longestRising(common);
}

function once(lines: string[], from: number, end: number): Map<string, number> {
  const found = new Map<string, number>();
  for (let at = from; at < end; at++) found.set(lines[at], found.has(lines[at]) ? -1 : at);
  return found;
}

/** Return the longest part of pairs, which rise on the left, that rises on the right too. */
function longestRising(pairs: [number, number][]): [number, number][] {
  const ends: number[] = []; // of parts of each length, the pair with the lowest right side
  const before: number[] = [];
  pairs.forEach(([, right], at) => {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[ends[middle]][1] < right) low = middle + 1;
      else high = middle;
    }
    before[at] = low ? ends[low - 1] : -1;
    ends[low] = at;
  });
  const found: [number, number][] = [];
  for (let at = ends.at(-1) ?? -1; at >= 0; at = before[at]) found.push(pairs[at]);
  return found.reverse();
}

/** Cut a stretch of two texts at their anchors: what is between them is to be compared by itself. */
export function cut(a: string[], b: string[], whole: Span): Span[] {
  const made: Span[] = [];
  let [fromA, fromB] = [whole[0], whole[2]];
  for (const [atA, atB] of anchors(a, b, whole)) {
    made.push([fromA, atA, fromB, atB]);
    [fromA, fromB] = [atA, atB]; // the anchor itself is the first line of the next stretch
  }
  made.push([fromA, whole[1], fromB, whole[3]]);
  return made;
}
