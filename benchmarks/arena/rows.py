"""The results: a row for each model and tool."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from benchmarks.arena.latency import Latency

__all__ = ["Outputs", "Row", "Run", "best_nodes", "best_row"]

MAX_GROWTH: Final = 1.1
"""A result with more times the bytes of the original is not compared: it stores weights several times, or wider."""


class Outputs(StrEnum):
    """The outputs of a result against those of the original."""

    IDENTICAL = "identical"
    """Equal bit by bit."""
    NEAR = "near"
    """Equal within tolerance."""
    CHANGED = "changed"
    """Different or missing."""
    UNVERIFIED = "not verified"
    """The evaluators could not decide it."""
    NONE = "none"
    """There is no result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The result of one tool on one model."""

    model: str
    """The name of the model."""
    wheel: str
    """The requirement of its wheel, such as `magika==1.0.3`."""
    sha256: str
    """The hash of the original."""
    group: str
    """`ten` or `others`."""
    tuned: bool
    """Whether the passes of apass were developed with the model."""
    tool: str
    """The name of the tool."""
    version: str
    """The version of the tool."""
    nodes_before: int
    """Nodes of the original."""
    bytes_before: int
    """Size of the original."""
    nodes: int | None = None
    """Nodes of the result; None if there is no result."""
    bytes: int | None = None
    """Size of the result."""
    foreign: int = 0
    """Nodes in domains of operators that the original does not use, hence not portable."""
    interface: str = ""
    """How the inputs and outputs differ from those of the original; empty if they are the same."""
    seconds: float | None = None
    """Time to load, optimize and save, without imports; None if there is no result."""
    process_seconds: float = 0.0
    """Time of the whole process."""
    peak: int = 0
    """Peak memory of the process in bytes."""
    error: str = ""
    """Why there is no result."""
    timed_out: bool = False
    """Whether the time limit ended it."""
    outputs: Outputs = Outputs.NONE
    """Whether the outputs are equal."""
    difference: float | None = None
    """The largest difference of outputs; None if there is none or it is infinite."""
    reason: str = ""
    """What differs, or why the outputs could not be compared."""
    culprit: str = ""
    """The part of the tool that changes the outputs, if it was found."""
    latency: Latency | None = None
    """The latency against the original, if it was measured."""
    latency_error: str = ""
    """Why the latency could not be measured."""

    @property
    def verified(self) -> bool:
        """Whether the outputs are equal."""
        return self.outputs in (Outputs.IDENTICAL, Outputs.NEAR)

    @property
    def counts(self) -> bool:
        """Whether it is compared with other results.

        It is if it is verified, has the interface and the domains of the original, and is not much larger.
        """
        is_unpacked = self.bytes is not None and self.bytes > MAX_GROWTH * self.bytes_before
        return self.verified and not self.foreign and not self.interface and not is_unpacked

    @property
    def is_larger(self) -> bool:
        """Whether the result has more bytes than the original."""
        return self.bytes is not None and self.bytes > self.bytes_before

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Row":
        """Return the row of values from JSON."""
        row = cls(**values)
        latency: Any = row.latency
        return replace(row, outputs=Outputs(row.outputs), latency=None if latency is None else Latency(**latency))


@dataclass(slots=True)
class Run:
    """All results, with what made them."""

    machine: dict[str, Any]
    """The machine, apass and Python."""
    versions: dict[str, str]
    """The versions of tools and libraries."""
    command: str
    """The command without the folders."""
    rows: list[Row] = field(default_factory=list[Row])
    """The results, by model, in the order of the list."""

    def models(self) -> dict[str, dict[str, Row]]:
        """Return the rows by model and tool."""
        found: dict[str, dict[str, Row]] = {}
        for row in self.rows:
            found.setdefault(row.model, {})[row.tool] = row
        return found

    def tools(self) -> list[str]:
        """Return the names of the tools."""
        return list(dict.fromkeys(row.tool for row in self.rows))

    def part(self, *, tuned: bool) -> "Run":
        """Return the results of the models that were used for tuning, or of the others."""
        return Run(self.machine, self.versions, self.command, [row for row in self.rows if row.tuned is tuned])

    def as_json(self) -> dict[str, Any]:
        """Return values for JSON."""
        return {
            "machine": self.machine,
            "versions": self.versions,
            "command": self.command,
            "rows": [asdict(row) for row in self.rows],
        }


def best_row(rows: Mapping[str, Row], tools: Sequence[str]) -> Row | None:
    """Return the smallest result of the tools that counts; None if there is none."""
    found = [row for tool in tools if (row := rows.get(tool)) and row.counts]
    return min(found, key=lambda row: row.nodes or 0, default=None)


def best_nodes(rows: Mapping[str, Row], tools: Sequence[str]) -> int:
    """Return the nodes of the smallest result of the tools that counts.

    The original counts too.
    """
    before, best = next(iter(rows.values())).nodes_before, best_row(rows, tools)
    return before if best is None or best.nodes is None else min(before, best.nodes)
