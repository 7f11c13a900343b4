"""`StatisticsInstrument`: what passes counted, summed for each pass; for whoever asks what a pipeline achieved."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from threading import Lock
from typing import Any

from apass.core.instrument import pass_instrument
from apass.core.run import Run

__all__ = ["PassStatistic", "StatisticsInstrument"]


@dataclass(frozen=True, slots=True, order=True)
class PassStatistic:
    """One thing that a pass counted, over all its runs."""

    pass_name: str
    """The name of the pass; empty for what was counted outside of any."""
    name: str
    """What was counted."""
    amount: float
    """How many."""
    module: str | None = None
    """The name of the module; None without a name, or summed over modules."""


@pass_instrument
class StatisticsInstrument:
    """Sums what passes count by `ctx.statistic(name, amount)`, from any number of tasks and threads at once.

    Memory grows with the names of modules, passes and statistics, not with the runs.

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
        """Add what was counted."""
        key = (None if run is None else run.module, "" if run is None else run.info.name, name)
        with self._lock:
            self._sums[key] = self._sums.get(key, 0) + amount

    def totals(self, *, merge: bool = True) -> tuple[PassStatistic, ...]:
        """Return the sums, in the order of the names of passes and statistics; without `merge`, for each module."""
        with self._lock:
            sums = dict(self._sums)
        return _merged(sums) if merge else tuple(sorted(_each(sums), key=lambda one: (one.module or "", one)))

    def render(self) -> str:
        """Return the sums as text: each pass, and below it what it counted."""
        found = self.totals()
        if not found:
            return "no pass counted anything"
        width = max(len(_number(one.amount)) for one in found)
        lines: list[str] = []
        for name, group in groupby(found, key=lambda one: one.pass_name):
            lines.append(name or "outside of any pass")
            lines += (f"  {_number(one.amount):>{width}}  {one.name}" for one in group)
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return the sums as values for JSON: for each pass, by its name, what it counted, by name."""
        found: dict[str, dict[str, float]] = {}
        for one in self.totals():
            found.setdefault(one.pass_name, {})[one.name] = one.amount
        return {"version": 1, "statistics": found}

    def reset(self) -> None:
        """Forget what was counted."""
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
