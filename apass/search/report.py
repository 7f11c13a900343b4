"""`report_page`: a page about a search, with charts and all trials."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from html import escape
from typing import Any, Final

from apass.core.view import diff
from apass.display.blocks import Bar, Block, Fold, Group, Row, Span, Style, Table, Tree, limited
from apass.display.html import COLORS, render_html
from apass.search.ablation import Effect
from apass.search.result import ModuleResult, SearchResult
from apass.search.trial import Trial, elements_of
from apass.util.printable import printable
from apass.util.text import count_of, shorten

__all__ = ["report_page"]

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
body{{font-family:system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;line-height:1.5}}
h1{{font-size:1.4rem}} h2{{font-size:1.15rem;margin-top:2rem}} h3{{font-size:1rem}}
svg{{max-width:100%;height:auto;font:11px system-ui,sans-serif}} svg text{{fill:currentColor}}
.axis{{stroke:currentColor;stroke-opacity:.35;fill:none}}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""

WIDTH: Final = 720
"""Width of a chart in pixels."""
HEIGHT: Final = 240
"""Height of a chart."""
LEFT: Final = 64
"""Space for the labels of an axis."""
MOST_POINTS: Final = 2000
"""Points of a chart; of more, some are left out."""
MOST_OPEN: Final = 50
"""Trials of a table that is unfolded at first."""
MOST_NODES: Final = 400
"""Nodes of the tree of beginnings."""


def report_page(
    result: SearchResult[Any],
    trials: Mapping[str, Sequence[Trial]],
    effects: Mapping[str, Sequence[Effect]],
    originals: Mapping[str, Any],
) -> str:
    """Return an HTML page, which loads nothing and needs no scripts.

    Parameters:
        result: the result of the search.
        trials: the trials of each module, with the baseline, in their order.
        effects: what each pass of the best pipelines contributes.
        originals: the modules before.

    """
    body: list[str] = [render_html(_overview(result))]
    for found in result.modules.values():
        rows = [trial for trial in trials[found.name] if trial.number != found.baseline.number]
        body.append(f"<h2>{_text(found.name)}</h2>")
        body.append(_convergence(found, rows))
        if len(found.front) > 1:
            body += ["<h3>Pareto front</h3>", _front(found, rows), render_html(_front_table(found))]
        if effects.get(found.name):
            body += ["<h3>Passes that matter</h3>", render_html(_effects(found, effects[found.name]))]
        body += ["<h3>Tree of beginnings</h3>", render_html(_tree(rows, found.objective))]
        body += ["<h3>Trials</h3>", render_html(_trials(found, rows))]
        # The longest part is folded.
        changes = diff(originals[found.name], found.module).html()
        body.append(f"<details><summary><b>Changes of the module</b></summary>{changes}</details>")
    title = f"Search of pipelines: {count_of(len(result.modules), 'module')}"
    return _PAGE.format(title=_text(title), body="\n".join(body))


def _text(text: str) -> str:
    return escape(printable(text, "\t"))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.6g}"


def _percent(ratio: float | None) -> str:
    return "" if ratio is None else f"{100 * (ratio - 1):+.2f}%"


def _overview(result: SearchResult[Any]) -> Block:
    rows = [
        Row(
            [
                (Span(_number(found.baseline.values[found.objective])),),
                (Span(_number(found.values[found.objective])),),
                (Span(_percent(found.ratio), "good" if (found.ratio or 1) < 1 else "muted"),),
                (Span(str(found.trials)),),
                (Span(found.name, "name"),),
                (Span(found.pipeline or "(no pass)"),),
            ]
        )
        for found in result.modules.values()
    ]
    saved = f"{result.prefixes.runs:,} of {result.prefixes.passes:,} passes ran, {result.prefixes.saved:.0%} saved"
    counts = f"{count_of(result.evaluations, 'candidate')}, {result.equal} equal, {result.failed} failed; {saved}"
    line = (Span(f"geometric mean {_percent(result.ratio)}; ", "name"),) if result.ratio is not None else ()
    head = ["baseline", "best", "change", "trials", "module", "pipeline"]
    return Group([(*line, Span(counts)), limited(Table(head, rows, numbers=4))])


def _convergence(found: ModuleResult[Any], trials: Sequence[Trial]) -> str:
    """Return a chart of the values of trials, and of the best so far."""
    name = found.objective
    values = [(index, trial.values[name]) for index, trial in enumerate(trials, 1) if trial.is_valid]
    if not values:
        return "<p>No candidate has a value.</p>"
    base = found.baseline.values[name]
    steps: list[tuple[float, float]] = [(0, base)]
    for index, value in values:
        if value < steps[-1][1]:
            steps += [(index, steps[-1][1]), (index, value)]
    steps.append((len(trials), steps[-1][1]))
    # Values far above the baseline would flatten the interesting part.
    low = min(value for _, value in steps)
    high = max(base, low) + 0.5 * (abs(base - low) or abs(base) or 1)
    chart = _Chart((0, max(1, len(trials))), (low, high), "trial", name)
    chart.points([(x, min(y, high)) for x, y in values], COLORS["note"], 1.6)
    chart.line([(0, base), (len(trials), base)], COLORS["warning"], dashed=True)
    chart.line(steps, COLORS["good"])
    return chart.svg(f"{name} of the trials, the best so far, and the baseline")


def _front(found: ModuleResult[Any], trials: Sequence[Trial]) -> str:
    """Return a chart of the first two values of trials, and of the front."""
    first, second = list(found.baseline.values)[:2]
    valid = [(trial.values[first], trial.values[second]) for trial in trials if trial.is_valid]
    front = [(trial.values[first], trial.values[second]) for trial in found.front]
    xs, ys = zip(*valid, *front, strict=True)
    chart = _Chart((min(xs), max(xs)), (min(ys), max(ys)), first, second)
    chart.points(valid, COLORS["note"], 1.6)
    chart.line(front, COLORS["good"])
    chart.points(front, COLORS["good"], 3)
    return chart.svg(f"{first} and {second} of the trials, and the Pareto front")


def _front_table(found: ModuleResult[Any]) -> Block:
    names = list(found.baseline.values)
    rows = [
        Row([*((Span(_number(trial.values[name])),) for name in names), (Span(trial.pipeline or "(no pass)"),)])
        for trial in found.front
    ]
    return limited(Table([*names, "pipeline"], rows, numbers=len(names)))


def _effects(found: ModuleResult[Any], effects: Sequence[Effect]) -> Block:
    longest = max((effect.gain or 0.0 for effect in effects), default=0.0)
    rows = [
        Row(
            [
                (Span(_number(effect.value) if effect.value is not None else "fails", "plain"),),
                (Span(f"+{_number(effect.gain)}" if effect.gain is not None else ""),),
                Bar.of(effect.gain or 0.0, 0.0, longest),
                (Span(effect.element),),
            ]
        )
        for effect in effects
    ]
    return Table([f"{found.objective} without", "more", "", "pass"], rows, numbers=2)


@dataclass(slots=True)
class _Node:
    """A beginning of sequences."""

    children: "dict[str, _Node]" = field(default_factory=dict[str, "_Node"])
    count: int = 0
    best: float | None = None


def _tree(trials: Iterable[Trial], name: str) -> Block:
    """Return the common beginnings of the pipelines, with the best value below each."""
    root = _Node()
    for trial in trials:
        value = trial.values.get(name) if trial.is_valid else None
        node = root
        for element in elements_of(trial.pipeline):
            node = node.children.setdefault(element, _Node())
            node.count += 1
            if value is not None and (node.best is None or value < node.best):
                node.best = value
    shown = [0]
    return Tree((Span("all pipelines", "muted"),), _subtrees(root, shown))


def _subtrees(node: _Node, shown: list[int]) -> list[Tree]:
    trees: list[Tree] = []
    for text, child in sorted(node.children.items(), key=lambda item: (-item[1].count, item[0])):
        if child.count == 1 or shown[0] >= MOST_NODES:
            continue
        shown[0] += 1
        best = f"  best {_number(child.best)}" if child.best is not None else ""
        label = (Span(text, "name"), Span(f"  {count_of(child.count, 'trial')}{best}", "muted"))
        trees.append(Tree(label, _subtrees(child, shown)))
    return trees


def _trials(found: ModuleResult[Any], trials: Sequence[Trial]) -> Block:
    """Return a table of all trials, with changes to the best before each."""
    names = list(found.baseline.values)
    best, rows = found.baseline, list[Row]()
    for trial in trials:
        is_better = trial.is_valid and trial.values[found.objective] < best.values[found.objective]
        style: Style = "good" if is_better else "plain"
        result = (Span(shorten(trial.reason, 120), "bad"),) if trial.reason else (Span(trial.source, "muted"),)
        values = [(Span(_number(trial.values.get(name)), style),) for name in names]
        rows.append(
            Row([(Span(str(trial.number)),), (Span(f"{trial.seconds:.3f}"),), *values, result, _change(best, trial)])
        )
        if is_better:
            best = trial
    head = ["trial", "seconds", *names, "result", "pipeline, with changes to the best before"]
    table = limited(Table(head, rows, numbers=2 + len(names)))
    return Fold((Span(count_of(len(trials), "trial"), "name"),), table, is_open=len(rows) <= MOST_OPEN)


def _change(best: Trial, trial: Trial) -> tuple[Span, ...]:
    """Return the passes of a trial, with the changes to the best before."""
    old, new = list(elements_of(best.pipeline)), list(elements_of(trial.pipeline))
    spans: list[Span] = []
    for kind, first, last, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind in ("delete", "replace"):
            spans.append(Span(f"-{','.join(old[first:last])} ", "bad"))
        if kind in ("insert", "replace"):
            spans.append(Span(f"+{','.join(new[start:end])} ", "good"))
        if kind == "equal":
            spans.append(Span(f"{','.join(new[start:end])} ", "muted"))
    return tuple(spans) or (Span("(no pass)", "muted"),)


class _Chart:
    """A chart with two axes, as SVG."""

    def __init__(self, xs: tuple[float, float], ys: tuple[float, float], x_name: str, y_name: str) -> None:
        self._xs, self._ys = _wide(xs), _wide(ys)
        self._names = x_name, y_name
        self._parts: list[str] = []

    def _place(self, point: tuple[float, float]) -> tuple[str, str]:
        x = LEFT + (point[0] - self._xs[0]) / (self._xs[1] - self._xs[0]) * (WIDTH - LEFT - 10)
        y = HEIGHT - 30 - (point[1] - self._ys[0]) / (self._ys[1] - self._ys[0]) * (HEIGHT - 50)
        return f"{x:.1f}", f"{y:.1f}"

    def points(self, points: Sequence[tuple[float, float]], color: str, radius: float) -> None:
        """Add points."""
        for point in points[:: max(1, len(points) // MOST_POINTS)]:
            x, y = self._place(point)
            self._parts.append(f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{color}"/>')

    def line(self, points: Sequence[tuple[float, float]], color: str, *, dashed: bool = False) -> None:
        """Add a line through points."""
        path = " ".join(",".join(self._place(point)) for point in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.6"{dash}/>')

    def svg(self, label: str) -> str:
        """Return the chart."""
        bottom, right = HEIGHT - 30, WIDTH - 10
        low, high = (self._place((self._xs[0], y))[1] for y in self._ys)
        x_name, y_name = map(_text, self._names)
        parts = [
            f'<path class="axis" d="M{LEFT} 20V{bottom}H{right}"/>',
            *self._parts,
            f'<text x="{LEFT - 6}" y="{low}" text-anchor="end">{_number(self._ys[0])}</text>',
            f'<text x="{LEFT - 6}" y="{high}" text-anchor="end">{_number(self._ys[1])}</text>',
            f'<text x="{LEFT}" y="{HEIGHT - 14}">{_number(self._xs[0])}</text>',
            f'<text x="{right}" y="{HEIGHT - 14}" text-anchor="end">{_number(self._xs[1])} {x_name}</text>',
            f'<text x="{LEFT}" y="12">{y_name}</text>',
        ]
        head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" aria-label="{_text(label)}">'
        return f"{head}{''.join(parts)}</svg>"


def _wide(bounds: tuple[float, float]) -> tuple[float, float]:
    low, high = bounds
    return (low, high) if low < high else (low - 0.5, high + 0.5)
