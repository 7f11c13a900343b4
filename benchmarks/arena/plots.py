"""Plots of ratios as SVG: a row for each tool, and a dot for each model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import log2
from statistics import median
from typing import Final, NamedTuple

from benchmarks.arena.totals import is_ours
from benchmarks.history import GREY, text

__all__ = ["Dot", "plot"]

OURS: Final = "#3b82d6"
PEER: Final = "#d9822b"
ROW: Final = 34
LEFT, RIGHT, TOP = 104, 700, 54
"""The edges of the drawing."""
WIDTH: Final = 744


class Dot(NamedTuple):
    """The result of one model."""

    name: str
    """The name of the model, for the tooltip."""
    ratio: float
    """The value; 1 is the original."""
    sure: bool = True
    """Whether the difference from 1 is certain; other dots are hollow."""


def plot(title: str, note: str, dots: Mapping[str, Sequence[Dot]], ticks: Sequence[float]) -> str:
    """Return the SVG; values beyond the first and the last tick are drawn at the edge."""
    low, high = log2(ticks[0]), log2(ticks[-1])

    def place(ratio: float) -> float:
        clipped = min(max(log2(max(ratio, 1e-9)), low), high)
        return LEFT + (RIGHT - LEFT) * (clipped - low) / (high - low)

    bottom = TOP + ROW * len(dots)
    body = [text(0, 16, title, size=15, bold=True), text(0, 34, note)]
    for tick in ticks:
        x = place(tick)
        dash = "" if tick == 1 else ' stroke-dasharray="2 4"'
        body.append(f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="{GREY}" stroke-opacity="0.6"{dash}/>')
        body.append(text(x, bottom + 15, f"{tick:g}", anchor="middle"))
    for index, (tool, values) in enumerate(dots.items()):
        body += _row(tool, values, TOP + ROW * index, place)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 24}" '
    style = f'width="{WIDTH}" height="{bottom + 24}" font-family="system-ui, sans-serif" fill="{GREY}">'
    return "\n".join([head + style, *body, "</svg>"]) + "\n"


def _row(tool: str, dots: Sequence[Dot], top: float, place: Callable[[float], float]) -> Iterator[str]:
    color = OURS if is_ours(tool) else PEER
    yield text(LEFT - 10, top + ROW / 2 + 4, tool, anchor="end", size=12)
    for number, dot in enumerate(sorted(dots, key=lambda dot: dot.ratio)):
        # Dots of close ratios are beside each other.
        y = top + 6 + (number * 7) % (ROW - 11)
        paint = f'fill="{color}" fill-opacity="0.55"' if dot.sure else f'fill="none" stroke="{color}"'
        label = f"<title>{dot.name}: {dot.ratio:.2f}</title>"
        yield f'<circle cx="{place(dot.ratio):.1f}" cy="{y:.1f}" r="2.6" {paint}>{label}</circle>'
    if dots:
        middle = median(dot.ratio for dot in dots)
        x = place(middle)
        yield f'<path d="M{x:.1f} {top + 3:.1f}V{top + ROW - 3:.1f}" stroke="{color}" stroke-width="2.5"/>'
        yield text(RIGHT + 8, top + ROW / 2 + 4, f"{middle:.2f}", color=color)
