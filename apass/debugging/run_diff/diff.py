"""`RunDiff`: the differences of two recorded runs, and the regressions among them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from apass.core.displayed import Displayed
from apass.debugging.run_diff.module_change import ModuleChange, ResultChange
from apass.debugging.run_diff.recorded_run import RecordedModule, RecordedRun
from apass.debugging.run_diff.times import TimeChange, TimeVerdict, has_enough
from apass.errors import InputError
from apass.util.text import count_of

__all__ = ["ALL_PASSES", "Regression", "RunDiff", "milliseconds"]

ALL_PASSES: Final = "(all passes)"
"""The name of the sum of the times of all passes."""


@dataclass(frozen=True, slots=True)
class Regression:
    """A difference for which a check in continuous integration should fail."""

    kind: str
    """One of `failure`, `missing`, `unstable`, `result`, `size` and `time`."""
    text: str
    """A line about it."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDiff(Displayed):
    """The differences of two runs.

    >>> import apass
    >>> from apass.instruments import ReportInstrument
    >>> def recorded(amount):
    ...     report, context = ReportInstrument(), apass.PassContext(instruments=[])
    ...     Add = apass.function_pass(lambda func, mod, ctx: func + amount, opt_level=0, name="Add")
    ...     apass.run(Add, {"f": 8}, context=context.replace(instruments=[report]))
    ...     return RecordedRun.of(report.record(), f"add {amount}")
    >>> diff = RunDiff.of(recorded(1), recorded(2))
    >>> [(change.name, change.result.value, str(change.first_difference)) for change in diff.modules]
    [('(unnamed 1)', 'different', '0:Add')]

    """

    sources: tuple[str, str]
    """Where the runs come from."""
    settings: tuple[tuple[str, str | None, str | None], ...]
    """The settings that differ, such as the pipeline, with the values of both runs."""
    only_first: tuple[str, ...]
    """The names of the modules that only the first run has."""
    only_second: tuple[str, ...]
    """The names of the modules that only the second run has."""
    modules: tuple[ModuleChange, ...]
    """The differences of each module that both runs have, in the order of names."""
    total: TimeChange | None
    """The sum of the times of all passes; None if a run has no times."""
    times: tuple[TimeChange, ...]
    """The times of each pass, summed over the modules that finished in both runs; the longest first."""
    samples: tuple[int, int]
    """How many times each run was measured."""
    notes: tuple[tuple[str, ...], tuple[str, ...]]
    """What the records lack."""

    @classmethod
    def of(cls, first: RecordedRun, second: RecordedRun) -> "RunDiff":
        """Return the differences of two runs.

        Raises:
            InputError: if one run is a report and the other a journal, or the journals are of different kinds.

        """
        if first.modules and second.modules and first.identity != second.identity:
            raise InputError(
                f"{first.source} identifies modules by their {first.identity}, and {second.source} by their "
                f"{second.identity}; compare two reports, or two journals of the same kind"
            )
        common = sorted(first.modules.keys() & second.modules.keys())
        pairs = [(first.modules[name], second.modules[name]) for name in common]
        has_times = first.samples > 0 and second.samples > 0
        # The passes after a failure did not run, so that the times of a failed module are no basis.
        finished = [pair for pair in pairs if all(module.failure is None for module in pair)] if has_times else []
        by_pass = _sums(left for left, _ in finished), _sums(right for _, right in finished)
        times = [
            TimeChange(name, by_pass[0].get(name, ()), by_pass[1].get(name, ()))
            for name in by_pass[0].keys() | by_pass[1].keys()
        ]
        names = first.settings.keys() | second.settings.keys()
        settings = [(name, first.settings.get(name), second.settings.get(name)) for name in sorted(names)]
        return cls(
            sources=(first.source, second.source),
            settings=tuple(item for item in settings if item[1] != item[2]),
            only_first=tuple(sorted(first.modules.keys() - second.modules.keys())),
            only_second=tuple(sorted(second.modules.keys() - first.modules.keys())),
            modules=tuple(ModuleChange.of(left, right) for left, right in pairs),
            total=TimeChange(ALL_PASSES, _total(by_pass[0]), _total(by_pass[1])) if finished else None,
            times=tuple(sorted(times, key=lambda change: (-max(map(_or_zero, change.medians)), change.name))),
            samples=(first.samples, second.samples),
            notes=(first.notes, second.notes),
        )

    @property
    def changes(self) -> tuple[ModuleChange, ...]:
        """The modules for which something else than times differs."""
        return tuple(change for change in self.modules if not change.is_empty)

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs, apart from noise."""
        time_changes = [] if self.total is None else [self.total, *self.times]
        is_changed = any(change.verdict in (TimeVerdict.SLOWER, TimeVerdict.FASTER) for change in time_changes)
        return not (is_changed or self.changes or self.only_first or self.only_second or self.settings)

    def __str__(self) -> str:
        """Return a one-line summary."""
        kinds = Counter(change.result for change in self.modules)
        counts = {
            "with another result": kinds[ResultChange.DIFFERENT],
            "failed": kinds[ResultChange.FAILED],
            "fixed": kinds[ResultChange.FIXED],
            "unknown": kinds[ResultChange.UNKNOWN],
        }
        more = ", ".join(f"{count} {noun}" for noun, count in counts.items() if count) or "all results are equal"
        return f"{count_of(len(self.modules), 'module')} compared: {more}"

    @property
    def can_judge_times(self) -> bool:
        """Whether there are enough repetitions for verdicts about times."""
        return has_enough(*self.samples)

    @property
    def mirrored(self) -> "RunDiff":
        """The differences from the second run to the first."""
        return RunDiff(
            sources=(self.sources[1], self.sources[0]),
            settings=tuple((name, second, first) for name, first, second in self.settings),
            only_first=self.only_second,
            only_second=self.only_first,
            modules=tuple(change.mirrored for change in self.modules),
            total=None if self.total is None else self.total.mirrored,
            times=tuple(change.mirrored for change in self.times),
            samples=(self.samples[1], self.samples[0]),
            notes=(self.notes[1], self.notes[0]),
        )

    def regressions(self, bound: float, *, allow_different: bool = True) -> tuple[Regression, ...]:
        """Return the differences that make the second run worse.

        - A module failed in the second run only, or is missing from it.
        - The repetitions of the second run, but not those of the first, have different results.
        - A size of a result grew by more than the bound.
        - A pass, or all passes together, became slower by more than the bound, and the verdict is `SLOWER`. A pass
          counts if the medians differ by at least 1% of the time of all passes.

        Parameters:
            bound: the allowed growth, such as 0.1 for 10%.
            allow_different: whether a result may differ. If not, each module with another result is a regression.

        """
        return tuple(self._regressions(bound, allow_different))

    def _regressions(self, bound: float, allow_different: bool) -> Iterator[Regression]:
        for name in self.only_first:
            yield Regression("missing", f"{name} is only in the first run")
        for change in self.modules:
            if change.result is ResultChange.FAILED:
                yield Regression("failure", f"{change.name}: {change.failures[1]}")
            if change.are_repeatable == (True, False):
                yield Regression("unstable", f"{change.name}: the repetitions of the second run have other results")
            if change.result is ResultChange.DIFFERENT and not allow_different:
                where = (
                    "" if change.first_difference is None else f"; first pass that differs: {change.first_difference}"
                )
                yield Regression("result", f"{change.name} has another result{where}")
            for size in change.sizes:
                if size.second > size.first * (1 + bound):
                    yield Regression("size", f"{change.name}: {size}")
        total = self.total
        if total is not None:
            smallest = 0.01 * _or_zero(total.medians[0])
            for time in (total, *self.times):
                first, second = map(_or_zero, time.medians)
                if time.verdict is TimeVerdict.SLOWER and second > first * (1 + bound) and second - first >= smallest:
                    yield Regression("time", f"{time.name}: {time_text(time)}")

    def as_json(self) -> dict[str, Any]:
        """Return the differences as values for JSON.

        Modules without differences are left out.
        """
        return {
            "first": self.sources[0],
            "second": self.sources[1],
            "settings": [{"name": name, "first": first, "second": second} for name, first, second in self.settings],
            "modules": {
                "compared": len(self.modules),
                "only_first": list(self.only_first),
                "only_second": list(self.only_second),
                "changed": [change.as_json() for change in self.changes],
            },
            "samples": list(self.samples),
            "total": None if self.total is None else _time_as_json(self.total),
            "times": [_time_as_json(change) for change in self.times],
            "notes": [*self.notes[0], *self.notes[1]],
        }


def time_text(change: TimeChange) -> str:
    """Return the medians and the ratio of times."""
    ratio = "" if change.ratio is None or change.ratio == inf else f" (x {change.ratio:.2f})"
    return f"{milliseconds(change.medians[0])} -> {milliseconds(change.medians[1])}{ratio}"


def milliseconds(seconds: float | None) -> str:
    """Return a time in milliseconds."""
    return "-" if seconds is None else f"{seconds * 1e3:,.3f} ms"


def _sums(modules: Iterable[RecordedModule]) -> Mapping[str, tuple[float, ...]]:
    """Return the seconds of each pass over all modules, for each repetition."""
    sums: dict[str, list[float]] = {}
    for module in modules:
        for name, times in module.times.items():
            total = sums.setdefault(name, [0.0] * len(times))
            for index, time in enumerate(times):
                total[index] += time
    return {name: tuple(times) for name, times in sums.items()}


def _total(by_pass: Mapping[str, Sequence[float]]) -> tuple[float, ...]:
    return tuple(map(sum, zip(*by_pass.values(), strict=True)))


def _or_zero(value: float | None) -> float:
    return 0.0 if value is None else value


def _time_as_json(change: TimeChange) -> dict[str, Any]:
    ratio = change.ratio
    return {
        "pass": change.name,
        "first": list(change.first),
        "second": list(change.second),
        "medians": list(change.medians),
        "ratio": None if ratio == inf else ratio,
        "p_value": change.p_value,
        "verdict": change.verdict.value,
    }
