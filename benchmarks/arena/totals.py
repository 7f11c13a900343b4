"""Sums over models, for each tool."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from benchmarks.arena.rows import Outputs, Row, Run, best_nodes

__all__ = ["Totals", "is_ours", "mark", "totals"]


@dataclass(frozen=True, slots=True)
class Totals:
    """The results of one tool on all models."""

    tool: str
    """The name of the tool."""
    nodes: int
    """Sum of nodes; the original counts where there is no result."""
    bytes: int
    """Sum of sizes; the original counts where there is no result."""
    identical: int
    """Models with outputs that are equal bit by bit."""
    near: int
    """Models with outputs that are equal within tolerance."""
    difference: float | None
    """The largest difference of these; None if there is none."""
    changed: int
    """Models with other outputs."""
    unverified: int
    """Models whose outputs could not be compared."""
    crashes: int
    """Models without a result, also because of the time limit."""
    larger: int
    """Models with more bytes than the original."""
    interface: int
    """Models with other inputs or outputs than the original."""
    foreign: int
    """Models with operators of other domains than the original."""
    best: int
    """Models where no rival has a smaller verified result."""
    seconds: float
    """Time of the optimizer."""
    process_seconds: float
    """Time of the processes."""
    peak: int
    """The largest peak memory in bytes."""
    latency: float | None
    """Geometric mean of the ratios of latency; None if none was measured."""
    faster: int
    """Models that are faster than the original, with certainty."""
    slower: int
    """Models that are slower than the original, with certainty."""


def is_ours(tool: str) -> bool:
    """Return whether a tool is a pipeline of apass."""
    return tool.startswith("apass")


def mark(row: Row) -> str:
    """Return the nodes of a result with the marks of the table."""
    if row.outputs is Outputs.NONE:
        return "time" if row.timed_out else "crash"
    signs = {Outputs.CHANGED: "!", Outputs.UNVERIFIED: "?"}.get(row.outputs, "")
    signs += "i" if row.interface else ""
    signs += "+" if row.is_larger else ""
    return f"{row.nodes}{signs}{'x' if row.foreign else ''}"


def totals(run: Run) -> list[Totals]:
    """Return the totals of each tool."""
    tools = run.tools()
    return [_totals(tool, tools, run) for tool in tools]


def _totals(tool: str, tools: Sequence[str], run: Run) -> Totals:
    models = [rows for rows in run.models().values() if tool in rows]
    rows = [by_tool[tool] for by_tool in models]
    # Levels of apass are no rivals of each other.
    rivals = [other for other in tools if other != tool and not (is_ours(tool) and is_ours(other))]
    ratios = [row.latency for row in rows if row.latency is not None]

    def count(outputs: Outputs) -> int:
        return sum(row.outputs is outputs for row in rows)

    return Totals(
        tool=tool,
        nodes=sum(row.nodes_before if row.nodes is None else row.nodes for row in rows),
        bytes=sum(row.bytes_before if row.bytes is None else row.bytes for row in rows),
        identical=count(Outputs.IDENTICAL),
        near=count(Outputs.NEAR),
        difference=max((row.difference or 0 for row in rows if row.outputs is Outputs.NEAR), default=None),
        changed=count(Outputs.CHANGED),
        unverified=count(Outputs.UNVERIFIED),
        crashes=count(Outputs.NONE),
        larger=sum(row.is_larger for row in rows),
        interface=sum(bool(row.interface) for row in rows),
        foreign=sum(row.foreign > 0 for row in rows),
        best=sum(
            row.counts and row.nodes is not None and row.nodes <= best_nodes(by_tool, rivals)
            for row, by_tool in zip(rows, models, strict=True)
        ),
        seconds=sum(row.seconds or 0 for row in rows),
        process_seconds=sum(row.process_seconds for row in rows),
        peak=max((row.peak for row in rows), default=0),
        latency=exp(fmean(log(latency.ratio) for latency in ratios)) if ratios else None,
        faster=sum(latency.change == "faster" for latency in ratios),
        slower=sum(latency.change == "slower" for latency in ratios),
    )
