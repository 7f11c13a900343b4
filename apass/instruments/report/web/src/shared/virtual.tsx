// A list of any length, of which only the rows in sight are in the page.

import { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

interface Props<T> {
  items: T[];
  height: number;
  sizes?: number[]; // the heights of rows, in units of `height`; by default all are 1
  render: (item: T, index: number) => ComponentChildren;
  active?: number; // scrolled into sight when it changes
  center?: boolean;
  class?: string;
  label: string;
  role?: "list" | "group"; // the rows of a list can be reached with the keyboard; a group scrolls
  onScroller?: (element: HTMLElement | null) => void;
}

const MARGIN = 12;

export function VirtualList<T>({ items, height, sizes, render, active = -1, center, label, role, ...rest }: Props<T>) {
  const ref = useRef<HTMLDivElement>(null);
  const [[top, shown], setSight] = useState<[number, number]>([0, 60]);
  // Where each row begins, and the end of the last.
  const starts = useMemo(() => {
    const made = sizes && new Float64Array(sizes.length + 1);
    sizes?.forEach((size, at) => (made![at + 1] = made![at] + size));
    return made;
  }, [sizes]);
  const startOf = (at: number) => height * (starts ? starts[Math.min(at, starts.length - 1)] : at);

  useLayoutEffect(() => {
    const element = ref.current!;
    const look = () =>
      setSight((old) => {
        const seen: [number, number] = [Math.floor(element.scrollTop / height), Math.ceil(element.clientHeight / height) + 1];
        return seen[0] === old[0] && seen[1] === old[1] ? old : seen;
      });
    look();
    element.addEventListener("scroll", look, { passive: true });
    const observer = new ResizeObserver(look);
    observer.observe(element);
    rest.onScroller?.(element);
    return () => {
      element.removeEventListener("scroll", look);
      observer.disconnect();
    };
  }, [height]);

  useEffect(() => {
    const element = ref.current!;
    if (active < 0) return;
    const [from, to] = [startOf(active), startOf(active + 1)];
    if (from < element.scrollTop || to > element.scrollTop + element.clientHeight) {
      const space = element.clientHeight - height;
      element.scrollTop = center || from < element.scrollTop - space || to > element.scrollTop + 2 * space + height
        ? from - space / 3
        : from < element.scrollTop ? from : to - element.clientHeight;
    }
  }, [active, items]);

  const first = Math.max(0, Math.min(starts ? rowAt(starts, top) : top, items.length) - MARGIN);
  const last = Math.min(items.length, (starts ? rowAt(starts, top + shown) : top + shown) + MARGIN);
  return (
    <div ref={ref} class={`virtual ${rest.class ?? ""}`} aria-label={label} role={role ?? "list"} tabIndex={role === "group" ? 0 : undefined}>
      <div class="virtual-all" style={{ height: `${startOf(items.length)}px` }}>
        <div class="virtual-some" style={{ transform: `translateY(${startOf(first)}px)` }}>
          {items.slice(first, last).map((item, at) =>
            role === "group" ? (
              render(item, first + at)
            ) : (
              <div role="listitem" key={first + at}>
                {render(item, first + at)}
              </div>
            ),
          )}
        </div>
      </div>
    </div>
  );
}

/** Return the row in which a unit of height lies. */
function rowAt(starts: Float64Array, unit: number): number {
  let [low, high] = [0, starts.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle] <= unit) low = middle;
    else high = middle - 1;
  }
  return low;
}
