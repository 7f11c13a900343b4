"""The table of the arena as text."""

from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks.arena.rows import Outputs, Row, Run, best_nodes
from benchmarks.arena.totals import Totals, is_ours, mark, totals

__all__ = [
    "LEGEND",
    "before_and_best",
    "columns_of",
    "described",
    "findings",
    "lines_of",
    "noise_of",
    "parts_of",
    "total_rows",
]

LEGEND = (
    ("!", "changed outputs"),
    ("?", "outputs not verified"),
    ("i", "other inputs or outputs than the original"),
    ("+", "more bytes than the original"),
    ("x", "operators of a domain that the original does not use"),
    ("*", "model with which the passes of apass were developed"),
)
"""The marks of the table."""


def total_rows(sums: Sequence[Totals], before: int) -> Iterator[tuple[str, list[str]]]:
    """Iterate over the rows of the totals: a title, and a cell for each tool."""
    yield f"nodes (of {before})", [str(one.nodes) for one in sums]
    yield "outputs identical", [str(one.identical) for one in sums]
    yield "outputs near", [str(one.near) for one in sums]
    yield "largest near difference", ["" if one.difference is None else f"{one.difference:.1g}" for one in sums]
    yield "outputs changed", [str(one.changed) for one in sums]
    yield "outputs not verified", [str(one.unverified) for one in sums]
    yield "crashes and time limits", [str(one.crashes) for one in sums]
    yield "larger in bytes", [str(one.larger) for one in sums]
    yield "other inputs or outputs", [str(one.interface) for one in sums]
    yield "other domains", [str(one.foreign) for one in sums]
    yield "smallest or equal", [str(one.best) for one in sums]
    yield "size, MB", [f"{one.bytes / 1e6:.1f}" for one in sums]
    yield "optimizer, s", [f"{one.seconds:.1f}" for one in sums]
    yield "process, s", [f"{one.process_seconds:.1f}" for one in sums]
    yield "peak memory, MB", [f"{one.peak / 1e6:.0f}" for one in sums]
    if any(one.latency is not None for one in sums):
        yield "latency ratio", ["" if one.latency is None else f"{one.latency:.3f}" for one in sums]
        yield "faster, slower", [f"{one.faster}, {one.slower}" for one in sums]


def columns_of(run: Run) -> list[tuple[str, list[str]]]:
    """Return the rows of the models: a name and the cells.

    The cells are nodes: of the original, of each tool, and of the best result.
    """
    tools = run.tools()
    found: list[tuple[str, list[str]]] = []
    for model, rows in run.models().items():
        any_row = next(iter(rows.values()))
        cells = [mark(rows[tool]) if tool in rows else "" for tool in tools]
        best = str(best_nodes(rows, tools))
        found.append((f"{model}{'*' if any_row.tuned else ''}", [str(any_row.nodes_before), *cells, best]))
    return found


def before_and_best(run: Run) -> tuple[int, int, int]:
    """Return the sums of nodes of the originals and of the best results.

    The third number is the sum for the peers alone.
    """
    tools = run.tools()
    models = list(run.models().values())
    before = sum(next(iter(rows.values())).nodes_before for rows in models)
    peers = [tool for tool in tools if not is_ours(tool)]
    return before, sum(best_nodes(rows, tools) for rows in models), sum(best_nodes(rows, peers) for rows in models)


def parts_of(run: Run) -> Iterator[tuple[str, Run]]:
    """Iterate over the titles and results of all and of untuned models."""
    yield _counted(run), run
    untuned = run.part(tuned=False)
    if 0 < len(untuned.rows) < len(run.rows):
        yield f"{_counted(untuned)} not used for tuning", untuned


def _counted(run: Run) -> str:
    count = len(run.models())
    return f"{count} model{'' if count == 1 else 's'}"


def lines_of(run: Run) -> Iterator[str]:
    """Iterate over the lines of the table, its totals and its findings."""
    tools = run.tools()
    body = columns_of(run)
    yield from _aligned([("model", ["original", *tools, "best"]), *body])
    yield ""
    yield "nodes without Constant, in all graphs and functions; " + ", ".join(f"{sign} {text}" for sign, text in LEGEND)
    for title, part in parts_of(run):
        before, best, of_peers = before_and_best(part)
        yield ""
        yield from _aligned([(title, tools), *total_rows(totals(part), before)])
        yield f"smallest verified result of each model: {best} nodes; of the peers alone: {of_peers}"
    noise = noise_of(run)
    if noise:
        yield noise
    lines = list(findings(run))
    yield from ["", *lines] if lines else []
    yield from _conclusion(run)


def _conclusion(run: Run) -> Iterator[str]:
    """Iterate over the last lines: what apass changed; none if it did not run."""
    models: dict[Outputs, set[str]] = {outputs: set() for outputs in Outputs}
    for row in run.rows:
        if is_ours(row.tool):
            models[row.outputs].add(row.model)
    if any(models.values()):
        changed, failed, unknown = (len(models[key]) for key in (Outputs.CHANGED, Outputs.NONE, Outputs.UNVERIFIED))
        yield ""
        yield f"apass: {changed} models with changed outputs, {failed} without a result, {unknown} not verified"


def noise_of(run: Run) -> str:
    """Return how much two sessions of one model differ; empty if unknown."""
    # All tools of a model have the same control, if they were measured together.
    controls = {row.model: row.latency.control for row in run.rows if row.latency is not None}
    if not controls:
        return ""
    percents = sorted(100 * (max(value, 1 / value) - 1) for value in controls.values())
    return (
        f"The latencies of two sessions of the same original differ by {median(percents):.1f}% in the median of"
        f" {len(percents)} models, and by up to {percents[-1]:.1f}%."
    )


def findings(run: Run) -> Iterator[str]:
    """Iterate over a line for each changed, failed or unverified result."""
    for title, chosen in (
        ("changed outputs", [row for row in run.rows if row.outputs is Outputs.CHANGED]),
        ("no result", [row for row in run.rows if row.outputs is Outputs.NONE]),
        ("not verified", [row for row in run.rows if row.outputs is Outputs.UNVERIFIED]),
    ):
        for row in chosen:
            yield f"{title}: {row.tool} on {row.model}: {described(row)}"
    for row in run.rows:
        if row.interface:
            yield f"other inputs or outputs: {row.tool} on {row.model}: {row.interface}"


def described(row: Row) -> str:
    """Return what is wrong with a result, with the culprit."""
    text = row.error or row.reason
    return f"{text}; culprit: {row.culprit}" if row.culprit else text


def _aligned(rows: Sequence[tuple[str, Sequence[str]]]) -> Iterator[str]:
    """Iterate over aligned lines; all columns but the first are numbers."""
    first = max(len(title) for title, _ in rows)
    widths = [max(map(len, column)) for column in zip(*(cells for _, cells in rows), strict=True)]
    for title, cells in rows:
        numbers = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        yield f"{title.ljust(first)}  {numbers}".rstrip()
