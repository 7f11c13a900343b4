// A list of any length of rows of one height, of which only those in sight are in the page.

import { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

interface Props<T> {
  items: T[];
  height: number;
  render: (item: T, index: number) => ComponentChildren;
  active?: number; // scrolled into sight when it changes
  center?: boolean;
  class?: string;
  label: string;
  role?: "list" | "table";
  onScroller?: (element: HTMLElement | null) => void;
}

const MARGIN = 12;

export function VirtualList<T>({ items, height, render, active = -1, center, label, role, ...rest }: Props<T>) {
  const ref = useRef<HTMLDivElement>(null);
  const [[top, shown], setSight] = useState<[number, number]>([0, 60]);

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
    const [from, to] = [active * height, (active + 1) * height];
    if (from < element.scrollTop || to > element.scrollTop + element.clientHeight) {
      const space = element.clientHeight - height;
      element.scrollTop = center || from < element.scrollTop - space || to > element.scrollTop + 2 * space + height
        ? from - space / 3
        : from < element.scrollTop ? from : to - element.clientHeight;
    }
  }, [active, items]);

  const first = Math.max(0, Math.min(top, items.length) - MARGIN);
  const last = Math.min(items.length, top + shown + MARGIN);
  return (
    <div ref={ref} class={`virtual ${rest.class ?? ""}`} aria-label={label} role={role ?? "list"}>
      <div class="virtual-all" style={{ height: `${items.length * height}px` }}>
        <div class="virtual-some" style={{ transform: `translateY(${first * height}px)` }}>
          {items.slice(first, last).map((item, at) => render(item, first + at))}
        </div>
      </div>
    </div>
  );
}
