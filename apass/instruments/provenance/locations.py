"""`LocationCheckInstrument`: names the passes that lose or invent locations."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

from apass.adapters.nodes import Node, nodes_of
from apass.core.adapter import adapter_for, run_in_thread_if_safe
from apass.core.displayed import Displayed
from apass.core.instrument import pass_instrument
from apass.core.pass_info import PassInfo
from apass.core.position import Position, PositionTracker
from apass.core.run import current_run
from apass.executors.instrument_twins import remote_run
from apass.instruments.provenance.matching import match_nodes
from apass.instruments.support.change_tracker import ChangeTracker
from apass.util.printable import printable

__all__ = ["LocationCheckInstrument", "PassLocations"]

_MOST_NAMES = 5
"""Maximum number of nodes that a text names for each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassLocations:
    """What one pass did to the locations in one function."""

    position: Position
    """The position of the pass."""
    function: str
    """The name of the function."""
    lost: tuple[str, ...]
    """The nodes that it kept, and whose location is gone."""
    missing: tuple[str, ...]
    """The nodes that it made without a location."""
    invented: tuple[str, ...]
    """The nodes with a location that no node of the module had before."""

    @property
    def pass_name(self) -> str:
        """The name of the pass."""
        return self.position.steps[-1][1]

    def as_json(self) -> dict[str, Any]:
        """Return the findings as JSON values."""
        return {
            "module": self.position.module,
            "pass": self.pass_name,
            "path": self.position.text,
            "function": self.function,
            "lost": list(self.lost),
            "missing": list(self.missing),
            "invented": list(self.invented),
        }

    def __str__(self) -> str:
        """Return the findings as one line."""
        kinds = (
            ("lost the location of", self.lost),
            ("made without location", self.missing),
            ("invented the location of", self.invented),
        )
        found = "; ".join(f"{words} {_listed(names)}" for words, names in kinds if names)
        return printable(f"{self.position} in {self.function}: {found}")


@pass_instrument
class LocationCheckInstrument(Displayed):
    """Finds the passes that lose or invent source locations, as LLVM's debugify does.

    Around each pass that changed a function, the nodes before and after are compared. To check all nodes, give each a
    location first: `apass.plugins.with_locations(mod)`. Which node is which is partly a heuristic; see
    `ProvenanceInstrument`.

    A function that a pass adds is not compared: its nodes may have moved from others.

    >>> import apass
    >>> from apass import relay
    >>> def double(func, mod, ctx):
    ...     return relay.Function(func.params, relay.add(func.body, func.body))
    >>> Double = apass.function_pass(double, opt_level=0, name="Double")
    >>> mod = relay.IRModule.from_expr(relay.Function([], relay.exp(relay.const(1.0))))
    >>> check = LocationCheckInstrument()
    >>> context = apass.PassContext(instruments=[check])
    >>> _ = apass.run(Double, apass.plugins.with_locations(mod), context=context)
    >>> print(check.render())
    0:Double in main: made without location add#0

    """

    def __init__(self, *, first: Mapping[str | None, int] | None = None) -> None:
        self._positions = PositionTracker(first)
        self._tracker = ChangeTracker()
        self._results: list[PassLocations] = []
        self._lock = Lock()

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        return partial(LocationCheckInstrument, first=self._positions.reserve(remote_run()))

    def worker_records(self) -> Sequence[PassLocations]:
        """Return the findings, for `merge_records` of the original."""
        return self._results

    def merge_records(self, records: Sequence[PassLocations]) -> None:
        """Add the findings of a twin."""
        with self._lock:
            self._results += records

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Record the module."""
        run = current_run()
        if run is not None and self._positions.position(run) is None:
            self._positions.begin(run)
            self._tracker.begin(run, mod)

    async def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Compare the locations, if the result is another module."""
        run = current_run()
        position = None if run is None else self._positions.position(run)
        if run is None or position is None:
            return
        before = self._tracker.end(run, mod)
        if before is not mod:
            await run_in_thread_if_safe(adapter_for(mod), mod, partial(self._compare, before, mod, position))

    def run_after_pass_failed(self, mod: Any, info: PassInfo, error: BaseException) -> None:
        """Forget the module."""
        run = current_run()
        if run is not None:
            self._tracker.fail(run)

    @property
    def results(self) -> tuple[PassLocations, ...]:
        """The findings, in the order of modules, passes and functions."""
        with self._lock:
            return tuple(sorted(self._results, key=_order))

    def render(self) -> str:
        """Return the findings as text, one line for each pass and function."""
        return "\n".join(map(str, self.results)) or "no pass lost or invented a location"

    def as_json(self) -> dict[str, Any]:
        """Return the findings as JSON values."""
        return {"version": 1, "locations": [item.as_json() for item in self.results]}

    def _compare(self, before: Any, after: Any, position: Position) -> None:
        adapter = adapter_for(after)
        if adapter_for(before) is not adapter:
            return
        old = dict(adapter.functions(before))
        changed = {name: func for name, func in adapter.functions(after) if name in old and old[name] is not func}
        nodes = {name: nodes_of(adapter, func) for name, func in old.items()} if changed else {}
        # Inlining moves locations from one function to another.
        known = {node.location for part in nodes.values() for node in part}
        for name, func in changed.items():
            item = _compared(nodes[name], nodes_of(adapter, func), known, position, name)
            if item.lost or item.missing or item.invented:
                with self._lock:
                    self._results.append(item)


def _compared(
    before: Sequence[Node], after: Sequence[Node], known: Set[str], position: Position, function: str
) -> PassLocations:
    pairs = match_nodes(before, after).pairs
    lost: list[str] = []
    missing: list[str] = []
    for index, node in enumerate(after):
        if node.location or not node.has_location:
            continue
        partner = pairs.get(index)
        if partner is None:
            missing.append(node.name)
        elif before[partner[0]].location:
            lost.append(node.name)
    invented = tuple(node.name for node in after if node.location and node.location not in known)
    return PassLocations(
        position=position, function=function, lost=tuple(lost), missing=tuple(missing), invented=invented
    )


def _order(item: PassLocations) -> tuple[str, tuple[int, ...], str]:
    return item.position.module or "", item.position.order, item.function


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
