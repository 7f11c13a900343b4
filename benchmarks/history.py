"""Trends of the ratios: a plot, and the table of benchmarks/README.md.

python -m benchmarks.history [--check]

Both follow from the files in `benchmarks/history/`, which `python -m benchmarks --json` writes. With `--check` the
command lists stale files and exits with status 1.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.area import Outcome
from benchmarks.measure import Row, quantity

ROOT: Final = Path(__file__).parents[1]
HISTORY: Final = ROOT / "benchmarks" / "history"
PLOT: Final = ROOT / "docs" / "assets" / "images" / "benchmarks.svg"
README: Final = ROOT / "benchmarks" / "README.md"

GREY: Final = "#7c7c7c"  # legible on the light and on the dark background
COLORS: Final = {"asyncio": "#3b82d6", "trio": "#d9822b", "": "#4d9e68"}
WIDTH, HEIGHT, COLUMNS = 372, 136, 2
LEFT, RIGHT, TOP, BOTTOM = 34, 318, 42, 112
"""The edges of the drawing in a panel."""


class Measured(NamedTuple):
    """One file of the history."""

    name: str
    """Name of the file: a release or a revision."""
    machine: dict[str, Any]
    """The values beside the rows."""
    rows: list[Row]


class Panel(NamedTuple):
    """A job and its peer; there is one row for each file and event loop."""

    area: str
    name: str
    peer: str


def load(folder: Path = HISTORY) -> list[Measured]:
    """Return the measured revisions, the oldest first."""
    files: list[Measured] = []
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        outcome = Outcome()
        outcome.add_json(document)
        files.append(Measured(path.stem, document, outcome.rows))
    return sorted(files, key=lambda measured: str(measured.machine["revision_date"]))


def panels(rows: Iterable[Row]) -> dict[Panel, list[Row]]:
    """Return the rows of each panel."""
    result: dict[Panel, list[Row]] = {}
    for row in rows:
        result.setdefault(Panel(row.area, row.name, row.peer), []).append(row)
    return result


def plot(history: Sequence[Measured]) -> str:
    """Return an SVG with a panel for each job that has a bound."""
    jobs = panels(row for measured in reversed(history) for row in measured.rows if row.bound is not None)
    areas = dict.fromkeys(job.area for job in jobs)
    body: list[str] = []
    top = 26
    for area in areas:
        body.append(text(0, top + 14, area, size=15, bold=True))
        top += 22
        chosen = [job for job in jobs if job.area == area]
        for index, job in enumerate(chosen):
            x, y = index % COLUMNS * WIDTH, top + index // COLUMNS * HEIGHT
            body += [f'<g transform="translate({x} {y})">', *panel(job, jobs[job][0].bound or 1, history), "</g>"]
        top += -(-len(chosen) // COLUMNS) * HEIGHT + 10
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH * COLUMNS} {top}" '
    style = f'width="{WIDTH * COLUMNS}" height="{top}" font-family="system-ui, sans-serif" fill="{GREY}">'
    return "\n".join([head + style, *legend(), *body, "</svg>"]) + "\n"


def legend() -> Iterator[str]:
    """Iterate over the elements that explain the colors."""
    x = 0
    for name, label in (("asyncio", "asyncio"), ("trio", "trio"), ("", "no event loop")):
        yield f'<circle cx="{x + 5}" cy="9" r="4" fill="{COLORS[name]}"/>'
        yield text(x + 14, 13, label)
        x += 24 + 8 * len(label)
    yield bound_line(x, x + 24, 9)
    yield text(x + 30, 13, "largest acceptable ratio")


def panel(job: Panel, bound: float, history: Sequence[Measured]) -> Iterator[str]:
    """Iterate over the elements of one panel."""
    rows = [panels(measured.rows).get(job, []) for measured in history]
    top = 1.15 * max(bound, *(row.ratio + (row.spread or 0) / 2 for group in rows for row in group if row.ratio))
    step = (RIGHT - LEFT) / max(len(history), 1)

    def height(ratio: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * ratio / top

    yield text(0, 16, job.name, size=12)
    yield text(0, 31, f"compared with: {job.peer}", size=11)
    yield f'<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" fill="none" stroke="{GREY}" stroke-opacity="0.5"/>'
    yield bound_line(LEFT, RIGHT, height(bound))
    for value in (0.0, bound):
        yield text(LEFT - 4, height(value) + 4, f"{value:.2f}" if value else "0", anchor="end")
    for index, measured in enumerate(history):
        yield text(LEFT + (index + 0.5) * step, BOTTOM + 13, measured.name, anchor="middle", size=10)
    backends = [backend for backend in COLORS if any(row.backend == backend for group in rows for row in group)]
    ends: list[tuple[float, str, str]] = []
    for number, backend in enumerate(backends):
        # Beside each other, so that equal ratios of two event loops are both visible.
        shift = (number - (len(backends) - 1) / 2) * 8
        points: list[tuple[float, float]] = []
        last = (0.0, "", backend)
        for index, group in enumerate(rows):
            for row in group:
                if row.backend == backend and row.ratio is not None:
                    x, half = LEFT + (index + 0.5) * step + shift, (row.spread or 0) / 2
                    points.append((x, height(row.ratio)))
                    yield (
                        f'<path d="M{x:.1f} {height(row.ratio + half):.1f}V{height(max(row.ratio - half, 0)):.1f}" '
                        f'stroke="{COLORS[backend]}" stroke-opacity="0.5" stroke-width="3"/>'
                    )
                    last = (height(row.ratio), f"{row.ratio:.2f}", backend)
        ends.append(last)
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline points="{line}" fill="none" stroke="{COLORS[backend]}" stroke-width="1.5"/>'
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{COLORS[backend]}"/>' for x, y in points)
    lowest = float("-inf")
    for y, label, backend in sorted(ends):
        lowest = max(y, lowest + 12)  # one below the other, where ratios are close
        yield text(RIGHT + 4, lowest + 4, label, color=COLORS[backend])


def bound_line(left: float, right: float, y: float) -> str:
    """Return the dashed line of a bound."""
    return f'<path d="M{left} {y:.1f}H{right}" stroke="#d04a4a" stroke-dasharray="4 3"/>'


def text(
    x: float, y: float, content: str, *, size: int = 11, anchor: str = "start", color: str = GREY, bold: bool = False
) -> str:
    """Return a text element."""
    weight = ' font-weight="600"' if bold else ""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}"{weight}'
    return f"<text {place}>{escape(content)}</text>"


def table(measured: Measured) -> str:
    """Return the rows of one file that have a peer, as a table in Markdown."""
    lines = ["| File | Job | asyncio | trio | at most | compared with |", "|---|---|---|---|---|---|"]
    for job, rows in panels(row for row in measured.rows if row.ratio is not None).items():
        ratios = {row.backend: f"{row.ratio:.2f}{' (over)' if row.holds is False else ''}" for row in rows}
        # A job without an event loop has the same ratio for both.
        cells = [ratios.get(backend) or ratios.get("", "") for backend in ("asyncio", "trio")]
        bound = "" if rows[0].bound is None else f"{rows[0].bound:.2f}"
        peer = f"{rows[0].peer}, {quantity(rows[0].other or 0, rows[0].unit)}" if job.peer == "limit" else job.peer
        lines.append("| " + " | ".join([f"`{job.area}`", job.name, *cells, bound, peer]) + " |")
    return "\n".join([describe(measured.name, measured.machine), "", *lines])


def describe(name: str, machine: Mapping[str, Any]) -> str:
    """Return a sentence about the machine and its calibration."""
    python, memory = (quantity(machine["calibration"][part], "s") for part in ("python", "memory"))
    place = f"{machine['python']}, {machine['platform']}, {machine['cpus']} CPUs"
    return (
        f"`{name}` on {str(machine['date'])[:10]}: apass {machine['apass']}, {place}. The calibration took {python} of"
        f" pure Python and {memory} of copies and hashes."
    )


def texts() -> Iterator[tuple[Path, str]]:
    """Iterate over the generated files and their current texts."""
    history = load()
    yield PLOT, plot(history)
    tables = f"<!-- table -->\n\n{table(history[-1])}\n\n<!-- /table -->"
    readme = README.read_text(encoding="utf-8")
    yield README, re.sub(r"<!-- table -->.*?<!-- /table -->", lambda _: tables, readme, flags=re.DOTALL)


def main(arguments: Sequence[str]) -> int:
    """Write the stale files; with `--check` only list them and return their number."""
    stale = [(path, new) for path, new in texts() if not path.exists() or path.read_text(encoding="utf-8") != new]
    for path, new in stale:
        print(path.relative_to(ROOT))
        if "--check" not in arguments:
            path.write_text(new, encoding="utf-8")
    return len(stale) if "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
