// All modules over time, on a canvas: zoomed by the wheel, moved by dragging, a click opens the pass.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Data, Module, Run, Status, STATUS_NAMES } from "./model";
import { time } from "./format";
import { Arrangement, Bar, firstAfter, Lane, moduleLanes, workerLanes, working } from "./lanes";

interface Props {
  data: Data;
  module: Module | null;
  run: Run | null;
  theme: string;
  open: (module: Module, run?: Run | null) => void;
}

interface Sight {
  from: number; // microseconds
  to: number;
  top: number; // pixels
}

const RULER = 28;
const MANY = 60; // modules; a lane for each of more shows little at once
const SHORTEST = 5; // microseconds across the whole width
const STEPS = [1, 2, 5];
const OUTER: [string, string] = ["#9aa3b2", "#5b6475"];

export function Timeline({ data, module, run, theme, open }: Props) {
  const [arrangement, setArrangement] = useState<Arrangement>(data.modules.length > MANY ? "workers" : "modules");
  const lanes = useMemo(
    () => (arrangement === "modules" ? moduleLanes(data, module) : workerLanes(data)),
    [data, module, arrangement],
  );
  const canvas = useRef<HTMLCanvasElement>(null);
  const [tip, setTip] = useState<{ bar: Bar; x: number; y: number } | null>(null);
  const whole = { from: 0, to: Math.max(data.end, 1) * 1.01, top: 0 };
  const sight = useRef<Sight>(whole);
  const follows = useRef(true); // the whole run is in sight, also while it grows
  const chart = useMemo(() => new Chart(lanes, run, data), [lanes, run, theme]);

  const show = (next: Sight) => {
    const element = canvas.current;
    if (!element) return;
    const width = next.to - next.from;
    const from = Math.max(-0.02 * whole.to, Math.min(next.from, whole.to - width * 0.1));
    const lowest = Math.max(0, chart.height + RULER + 8 - element.clientHeight);
    sight.current = { from, to: from + width, top: Math.max(0, Math.min(next.top, lowest)) };
    element.dataset.from = String(Math.round(sight.current.from));
    element.dataset.to = String(Math.round(sight.current.to));
    requestAnimationFrame(() => canvas.current && chart.draw(canvas.current, sight.current));
  };
  const look = (next: Sight) => {
    follows.current = false;
    show(next);
  };
  const zoom = (factor: number, x?: number) => {
    const { from, to, top } = sight.current;
    const element = canvas.current!;
    const share = x === undefined ? 0.5 : Math.max(0, (x - chart.gutter) / (element.clientWidth - chart.gutter));
    const width = Math.min(Math.max((to - from) * factor, SHORTEST), 1.05 * whole.to);
    const at = from + share * (to - from);
    look({ from: at - share * width, to: at - share * width + width, top });
  };

  useEffect(() => {
    const element = canvas.current!;
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      const { from, to, top } = sight.current;
      const perPixel = (to - from) / (element.clientWidth - chart.gutter);
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        const by = (event.deltaX || event.deltaY) * perPixel;
        look({ from: from + by, to: to + by, top });
      } else if (event.offsetX < chart.gutter) show({ from, to, top: top + event.deltaY });
      else zoom(Math.exp(Math.max(-100, Math.min(100, event.deltaY)) * 0.0025), event.offsetX);
    };
    element.addEventListener("wheel", wheel, { passive: false });
    const observer = new ResizeObserver(() => show(sight.current));
    observer.observe(element);
    show(follows.current ? { ...whole, top: sight.current.top } : sight.current);
    return () => {
      element.removeEventListener("wheel", wheel);
      observer.disconnect();
    };
  }, [chart]);

  useEffect(() => {
    // What was chosen elsewhere is brought into sight.
    const lane = chart.topOf(module);
    const element = canvas.current!;
    if (lane !== null && (lane < sight.current.top || lane > sight.current.top + element.clientHeight - 2 * RULER))
      show({ ...sight.current, top: lane - element.clientHeight / 3 });
  }, [module, arrangement]);

  const drag = useRef<{ x: number; y: number; sight: Sight; moved: boolean } | null>(null);
  const down = (event: PointerEvent) => {
    canvas.current!.setPointerCapture(event.pointerId);
    drag.current = { x: event.clientX, y: event.clientY, sight: sight.current, moved: false };
  };
  const move = (event: PointerEvent) => {
    const held = drag.current;
    if (!held) {
      const bar = chart.at(canvas.current!, sight.current, event.offsetX, event.offsetY);
      setTip(bar ? { bar, x: event.offsetX, y: event.offsetY } : null);
      return;
    }
    const [dx, dy] = [event.clientX - held.x, event.clientY - held.y];
    if (!held.moved && Math.hypot(dx, dy) < 4) return;
    held.moved = true;
    setTip(null);
    const { from, to, top } = held.sight;
    const by = (dx * (to - from)) / (canvas.current!.clientWidth - chart.gutter);
    look({ from: from - by, to: to - by, top: top - dy });
  };
  const up = (event: PointerEvent) => {
    const held = drag.current;
    drag.current = null;
    if (!held || held.moved) return;
    const bar = chart.at(canvas.current!, sight.current, event.offsetX, event.offsetY);
    if (bar) open(bar.run.module, bar.run);
  };
  return (
    <section class="wide flush timeline" aria-label="Timeline">
      <header class="filters">
        {data.modules.length > 1 && (
          <div class="switch" role="group" aria-label="Lanes">
            <button aria-pressed={arrangement === "modules"} onClick={() => setArrangement("modules")}>
              A lane a module
            </button>
            <button aria-pressed={arrangement === "workers"} onClick={() => setArrangement("workers")}>
              What ran at once
            </button>
          </div>
        )}
        <span class="legend">
          <i class="swatch work" /> {data.isLive ? "runs" : "at work"} <i class="swatch wait" />{" "}
          {data.isLive ? "waits" : "waiting, or in a thread"} <i class="swatch fail" /> failed
        </span>
        <span class="space" />
        <span class="hint">wheel zooms, drag moves, click opens</span>
        <button onClick={() => zoom(1 / 1.6)} aria-label="Zoom in" title="Zoom in (+)">
          +
        </button>
        <button onClick={() => zoom(1.6)} aria-label="Zoom out" title="Zoom out (−)">
          −
        </button>
        <button onClick={() => {
            follows.current = true;
            show(whole);
          }}>Whole run</button>
      </header>
      <div class="canvas">
        <canvas
          ref={canvas}
          onPointerDown={down}
          onPointerMove={move}
          onPointerUp={up}
          onPointerLeave={() => setTip(null)}
          role="img"
          aria-label="Passes of all modules over time"
        />
        {tip && <Tip {...tip} isLive={data.isLive} width={canvas.current!.clientWidth} />}
      </div>
    </section>
  );
}

interface TipProps {
  bar: Bar;
  x: number;
  y: number;
  width: number;
  isLive?: boolean;
}

function Tip({ bar, x, y, width, isLive }: TipProps) {
  const { run, body } = bar;
  const [wall, busy, status] = body ? [body.wall, body.busy, body.status] : [run.wall, run.busy, run.status];
  const side = x > width - 300 ? { right: `${width - x + 12}px` } : { left: `${x + 14}px` };
  return (
    <div class="tip" style={{ ...side, top: `${y + 14}px` }}>
      <b>
        {run.name}
        {body ? ` @${body.func}` : ""}
      </b>
      <span>{run.module.name}</span>
      {isLive ? (
        <span>{time(wall)}</span>
      ) : (
        <span>
          {time(wall)}: {time(busy)} at work, {time(Math.max(0, wall - busy))} waiting
        </span>
      )}
      {((body ? body.waits : run.waits) ?? []).slice(-3).map((wait, at) => (
        <span key={at}>
          {wait.end === null ? "waits" : "waited"} for {wait.what}
          {wait.end === null ? "" : `: ${time(wait.end - wait.start)}`}
        </span>
      ))}
      <span>
        from {time(bar.start)}, <em class={`state ${STATUS_NAMES[status]}`}>{STATUS_NAMES[status]}</em>
      </span>
    </div>
  );
}

/** Draws lanes, and finds what is at a place. */
class Chart {
  readonly height: number;
  readonly gutter: number;
  private readonly tops: number[];
  private readonly colors = new Map<string, [string, string]>(); // of a pass, by light and by dark

  constructor(
    private readonly lanes: Lane[],
    private readonly chosen: Run | null,
    data: Data,
  ) {
    let top = 0;
    this.tops = lanes.map((lane) => (top += lane.height) - lane.height);
    this.height = top;
    this.gutter = innerWidth < 700 ? 90 : 190;
    const names = [...new Set(data.runs.filter((run) => !run.children.length).map((run) => run.name))];
    if (!data.isLive) names.sort(); // a colour must stay when another pass starts
    names.forEach((name, at) => {
      // Neighbours by name are far apart by colour, and none is red, the colour of failures.
      const hue = 25 + Math.round((at * 118.4 + 200) % 310);
      this.colors.set(name, [`hsl(${hue} 55% 55%)`, `hsl(${hue} 48% 56%)`]);
    });
  }

  topOf(module: Module | null): number | null {
    const lane = this.lanes.findIndex((one) => one.module !== null && one.module === module);
    return lane < 0 ? null : this.tops[lane];
  }

  at(canvas: HTMLCanvasElement, sight: Sight, x: number, y: number): Bar | null {
    if (y < RULER) return null;
    const place = y - RULER + sight.top;
    const lane = this.tops.findLastIndex((top) => top <= place);
    if (lane < 0 || place > this.tops[lane] + this.lanes[lane].height) return null;
    const { bars } = this.lanes[lane];
    if (x < this.gutter) return bars[0] ?? null;
    const perPixel = (sight.to - sight.from) / (canvas.clientWidth - this.gutter);
    const when = sight.from + (x - this.gutter) * perPixel;
    let best: Bar | null = null;
    for (let at = firstAfter(bars, when - 2 * perPixel); at < bars.length && bars[at].start <= when + 2 * perPixel; at++)
      if (!best || bars[at].start <= when) best = bars[at];
    return best;
  }

  draw(canvas: HTMLCanvasElement, sight: Sight): void {
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    const scale = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    const paint = canvas.getContext("2d")!;
    const style = getComputedStyle(canvas);
    const color = (name: string) => style.getPropertyValue(name).trim();
    const isDark = color("--is-dark") === "1";
    paint.setTransform(scale, 0, 0, scale, 0, 0);
    paint.clearRect(0, 0, width, height);
    paint.font = `11px ${style.fontFamily}`;
    paint.textBaseline = "middle";
    const [muted, border] = [color("--muted"), color("--border")];
    this.drawRuler(paint, sight, width, height, muted, border);
    paint.save();
    paint.beginPath();
    paint.rect(0, RULER, width, height - RULER);
    paint.clip();
    const first = Math.max(0, this.tops.findLastIndex((top) => top <= sight.top));
    for (let at = first; at < this.lanes.length; at++) {
      const top = RULER + this.tops[at] - sight.top;
      if (top > height) break;
      const lane = this.lanes[at];
      if (lane.module && lane.module === this.chosen?.module) {
        paint.fillStyle = color("--hover");
        paint.fillRect(0, top, width, lane.height);
      }
      this.drawBars(paint, lane, sight, top, width, isDark, color("--bad"), color("--text"));
      this.drawLabel(paint, lane, top, lane.module?.status === Status.Failed ? color("--bad") : color("--text"), color("--panel"), muted);
    }
    paint.restore();
    paint.fillStyle = border;
    paint.fillRect(this.gutter - 1, 0, 1, height);
  }

  private drawRuler(paint: CanvasRenderingContext2D, sight: Sight, width: number, height: number, muted: string, border: string) {
    const perPixel = (sight.to - sight.from) / (width - this.gutter);
    const least = perPixel * 90;
    const power = 10 ** Math.floor(Math.log10(least));
    const step = (STEPS.find((one) => one * power >= least) ?? 10) * power;
    paint.textAlign = "left";
    for (let at = Math.ceil(Math.max(0, sight.from) / step) * step; at < sight.to; at += step) {
      const x = Math.round(this.gutter + (at - sight.from) / perPixel);
      if (x < this.gutter) continue;
      paint.fillStyle = border;
      paint.fillRect(x, RULER - 6, 1, height);
      paint.fillStyle = muted;
      paint.fillText(time(at), x + 4, RULER / 2);
    }
    paint.fillStyle = border;
    paint.fillRect(0, RULER - 1, width, 1);
  }

  private drawBars(
    paint: CanvasRenderingContext2D,
    lane: Lane,
    sight: Sight,
    top: number,
    width: number,
    isDark: boolean,
    bad: string,
    text: string,
  ) {
    const perMicro = (width - this.gutter) / (sight.to - sight.from);
    const place = (when: number) => this.gutter + (when - sight.from) * perMicro;
    paint.save();
    paint.beginPath();
    paint.rect(this.gutter, top, width - this.gutter, lane.height);
    paint.clip();
    paint.textAlign = "left";
    let drawn = -1;
    for (let at = firstAfter(lane.bars, sight.from); at < lane.bars.length; at++) {
      const bar = lane.bars[at];
      if (bar.start > sight.to) break;
      const [x, end] = [place(bar.start), place(bar.start + bar.wall)];
      const failed = (bar.body ?? bar.run).status === Status.Failed;
      if (end < drawn + 0.75 && !failed) continue; // it lies within a pixel that is drawn already
      drawn = Math.max(x + 0.75, end);
      const size = Math.max(end - x - (end - x > 3 ? 1 : 0), 0.75);
      const isOuter = bar.body === null && bar.run.children.length > 0;
      const solid = (isOuter ? OUTER : (this.colors.get(bar.run.name) ?? OUTER))[Number(isDark)];
      paint.fillStyle = solid;
      if (size < 2 && !failed && bar.run !== this.chosen) {
        // Too small for its parts: as strong as the share of the time that it worked.
        const { wall, busy } = bar.body ?? bar.run;
        paint.globalAlpha = 0.25 + 0.6 * (wall ? Math.min(1, busy / wall) : 1);
        paint.fillRect(x, top + 3, size, lane.height - 6);
        paint.globalAlpha = 1;
        continue;
      }
      paint.globalAlpha = 0.25;
      paint.fillRect(x, top + 3, size, lane.height - 6);
      paint.globalAlpha = 1;
      this.drawWork(paint, bar, place, sight, top, lane.height, isOuter);
      if (failed) {
        paint.fillStyle = bad;
        paint.fillRect(x, top + 3, Math.max(size, 2), 3);
        paint.fillRect(Math.max(x, x + size - 3), top + 3, Math.min(3, Math.max(size, 2)), lane.height - 6);
      }
      if (bar.run === this.chosen && !bar.body) {
        paint.strokeStyle = text;
        paint.lineWidth = 1.5;
        paint.strokeRect(x + 0.5, top + 2.5, Math.max(size - 1, 2), lane.height - 5);
      }
      if (size > 34) {
        const label = bar.body ? `@${bar.body.func}` : bar.run.name;
        const from = Math.max(x, this.gutter) + 5;
        paint.save();
        paint.beginPath();
        paint.rect(x, top, size - 3, lane.height);
        paint.clip();
        paint.fillStyle = isDark ? "#fff" : "#10131a";
        paint.fillText(label, from, top + lane.height / 2 + 0.5);
        paint.restore();
      }
    }
    paint.restore();
  }

  private drawWork(
    paint: CanvasRenderingContext2D,
    bar: Bar,
    place: (when: number) => number,
    sight: Sight,
    top: number,
    height: number,
    isOuter: boolean,
  ) {
    const bounds = working(bar);
    paint.globalAlpha = isOuter ? 0.55 : 0.85;
    let until = -Infinity;
    for (let at = 0; at + 1 < bounds.length; at += 2) {
      if (bounds[at + 1] < sight.from || bounds[at] > sight.to) continue;
      const from = Math.max(place(bounds[at]), until);
      const to = Math.max(place(bounds[at + 1]), from + 0.4);
      paint.fillRect(from, top + 3, to - from, height - 6);
      until = to;
    }
    paint.globalAlpha = 1;
  }

  private drawLabel(paint: CanvasRenderingContext2D, lane: Lane, top: number, color: string, panel: string, muted: string) {
    const room = this.gutter - 16 - 12 * lane.indent;
    paint.fillStyle = panel;
    paint.globalAlpha = 0.9;
    paint.fillRect(0, top, this.gutter - 1, lane.height);
    paint.globalAlpha = 1;
    paint.fillStyle = lane.indent ? muted : color;
    paint.textAlign = "left";
    let label = lane.label;
    // The end of a path says more than its beginning.
    if (paint.measureText(label).width > room) {
      const fits = Math.max(3, Math.floor((label.length * room) / paint.measureText(label).width) - 2);
      label = `…${label.slice(-fits)}`;
    }
    paint.fillText(label, 10 + 12 * lane.indent, top + lane.height / 2 + 0.5);
  }
}
