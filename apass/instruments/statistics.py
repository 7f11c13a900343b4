"""`StatisticsInstrument`: adds up the statistics that passes count."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from threading import Lock
from typing import Any

from apass.core.displayed import Displayed
from apass.core.instrument import pass_instrument
from apass.core.run import Run
from apass.display.blocks import Block, Row, Span, Table, limited

__all__ = ["PassStatistic", "StatisticsInstrument"]


@dataclass(frozen=True, slots=True, order=True)
class PassStatistic:
    """A statistic of one pass, added up over all its runs."""

    pass_name: str
    """The name of the pass; empty if it was counted outside of any pass."""
    name: str
    """The name of the statistic."""
    amount: float
    """The sum of the counted amounts."""
    module: str | None = None
    """The name of the module. None without a name, or if modules are merged."""

    @classmethod
    def __block_of__(cls, items: Sequence["PassStatistic"]) -> Block:
        if not items:
            return (Span("no pass counted anything", "muted"),)
        rows: list[Row] = []
        for name, group in groupby(items, key=lambda item: item.pass_name):
            rows.append(Row([(), (Span(name or "outside of any pass", "name"),)]))
            rows += (Row([(Span(f"{item.amount:g}"),), (Span(item.name),)], 1) for item in group)
        return limited(Table(["amount", "statistic"], rows, numbers=1))


@pass_instrument
class StatisticsInstrument(Displayed):
    """Adds up what passes count with `ctx.statistic(name, amount)`.

    Any number of tasks and threads may count at once. Memory grows with the names of modules, passes and statistics,
    not with the number of runs.

    >>> import apass
    >>> statistics = StatisticsInstrument()
    >>> @apass.module_pass(opt_level=0)
    ... def Clean(mod, ctx):
    ...     ctx.statistic("looked at", len(mod))
    ...     return mod
    >>> context = apass.PassContext(instruments=[statistics])
    >>> _ = apass.run(apass.Sequential([Clean, Clean]), {"f": 1, "g": 2}, context=context)
    >>> print(statistics.render())
    Clean
      4  looked at

    """

    def __init__(self) -> None:
        self._sums: dict[tuple[str | None, str, str], float] = {}
        self._lock = Lock()

    def on_statistic(self, run: Run | None, name: str, amount: float) -> None:
        """Add an amount to a statistic."""
        key = (None if run is None else run.module, "" if run is None else run.info.name, name)
        with self._lock:
            self._sums[key] = self._sums.get(key, 0) + amount

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        return StatisticsInstrument

    def worker_records(self) -> Mapping[tuple[str | None, str, str], float]:
        """Return the sums, for `merge_records` of the original."""
        return self._sums

    def merge_records(self, records: Mapping[tuple[str | None, str, str], float]) -> None:
        """Add the sums of a twin."""
        with self._lock:
            for key, amount in records.items():
                self._sums[key] = self._sums.get(key, 0) + amount

    def totals(self, *, merge: bool = True) -> tuple[PassStatistic, ...]:
        """Return the sums, sorted by pass and statistic.

        Without `merge`, there is one sum for each module.
        """
        with self._lock:
            sums = dict(self._sums)
        return _merged(sums) if merge else tuple(sorted(_each(sums), key=lambda item: (item.module or "", item)))

    def render(self) -> str:
        """Return the sums as text, grouped by pass."""
        totals = self.totals()
        if not totals:
            return "no pass counted anything"
        width = max(len(_number(item.amount)) for item in totals)
        lines: list[str] = []
        for name, group in groupby(totals, key=lambda item: item.pass_name):
            lines.append(name or "outside of any pass")
            lines += (f"  {_number(item.amount):>{width}}  {item.name}" for item in group)
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return the sums as JSON values, by name of the pass and name of the statistic."""
        statistics: dict[str, dict[str, float]] = {}
        for item in self.totals():
            statistics.setdefault(item.pass_name, {})[item.name] = item.amount
        return {"version": 1, "statistics": statistics}

    def __block__(self) -> Block:
        return PassStatistic.__block_of__(self.totals())

    def reset(self) -> None:
        """Discard the sums."""
        with self._lock:
            self._sums = {}


def _each(sums: Mapping[tuple[str | None, str, str], float]) -> Iterable[PassStatistic]:
    return (PassStatistic(pass_name, name, amount, module) for (module, pass_name, name), amount in sums.items())


def _merged(sums: Mapping[tuple[str | None, str, str], float]) -> tuple[PassStatistic, ...]:
    merged: dict[tuple[str, str], float] = {}
    for (_, pass_name, name), amount in sums.items():
        merged[pass_name, name] = merged.get((pass_name, name), 0) + amount
    return tuple(PassStatistic(*key, amount) for key, amount in sorted(merged.items()))


def _number(amount: float) -> str:
    return f"{amount:g}" if isinstance(amount, float) and not amount.is_integer() else f"{int(amount)}"
