"""The times of passes and functions, as values, tables and JSON; for instruments and those who read their results."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "FunctionTiming",
    "PassTiming",
    "render_functions",
    "render_modules",
    "render_passes",
    "render_timings",
    "timings_as_json",
    "timings_by_module",
    "timings_by_pass",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTiming:
    """The time that one pass took, at one place of a pipeline, over all its calls there. Times are in seconds."""

    name: str
    """The name of the pass."""
    module: str | None
    """The name of the module, as `optimize_all` and its like know it; None without a name, or summed over modules."""
    calls: int
    """How many calls have ended, failed ones included; the times are those of these calls."""
    failed: int
    """How many of them raised or were cancelled."""
    unfinished: int
    """How many calls have begun and not been seen to end: they still run, or the instrument was taken out of force."""
    wall: float
    """From the instrument's `run_before_pass` to its `run_after_pass` or `run_after_pass_failed`."""
    busy: float
    """How long it held the loop, the passes that it called and its fan-out included; not the tasks that it started."""
    children: tuple["PassTiming", ...]
    """The passes that it called, in the order in which they first began."""

    @property
    def waiting(self) -> float:
        """How long it waited, for its turn too; the steps in `busy` are disjoint parts of `wall`, so this is exact."""
        return self.wall - self.busy


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTiming:
    """The time that a function pass took for one function, once. Times are in seconds."""

    module: str | None
    """The name of the module; None if it has none."""
    function: str
    """The name of the function."""
    path: str
    """The names of the passes from the outermost down to the function pass, with slashes between."""
    failed: bool
    """Whether the work on it raised or was cancelled."""
    wall: float
    """From its start to its end."""
    busy: float
    """How long it held the loop."""

    @property
    def waiting(self) -> float:
        """How long it waited, for its turn too."""
        return self.wall - self.busy


def timings_by_pass(timings: Iterable[PassTiming]) -> tuple[PassTiming, ...]:
    """Return the sum for each pass over all its places and modules, the longest wall time first.

    A pass that calls itself counts once for each call, as in MLIR's list: so the sums may be more than all took.

    >>> from dataclasses import replace
    >>> inner = PassTiming(name="Fold", module="a", calls=2, failed=0, unfinished=0, wall=0.03, busy=0.01, children=())
    >>> outer = replace(inner, name="Main", calls=1, wall=0.07, children=(inner, inner))
    >>> [(one.name, one.calls, one.wall) for one in timings_by_pass([outer])]
    [('Main', 1, 0.07), ('Fold', 4, 0.06)]
    """
    groups: dict[str, list[PassTiming]] = {}
    for one in _all(timings):
        groups.setdefault(one.name, []).append(one)
    return _longest_first(_sum(name, None, group) for name, group in groups.items())


def timings_by_module(timings: Iterable[PassTiming]) -> tuple[PassTiming, ...]:
    """Return the sum for each module over the outermost passes that ran on it, the longest wall time first.

    Each is named after those passes, with "+" between where there are several.
    """
    groups: dict[str | None, list[PassTiming]] = {}
    for one in _outermost_of_modules(timings):
        groups.setdefault(one.module, []).append(one)
    return _longest_first(
        _sum("+".join(dict.fromkeys(one.name for one in group)), module, group) for module, group in groups.items()
    )


def render_timings(timings: Iterable[PassTiming]) -> str:
    """Return timings as a table in which the passes form a tree, in one section for each module name.

    The percentage is that of the parent's wall time, for an outermost pass that of the section's. It can be above 100
    for passes that a parent runs at the same time.

    >>> inner = PassTiming(name="Fold", module="a", calls=2, failed=0, unfinished=0, wall=0.03, busy=0.01, children=())
    >>> outer = PassTiming(
    ...     name="Main", module="a", calls=1, failed=1, unfinished=0, wall=0.04, busy=0.01, children=(inner,)
    ... )
    >>> print(render_timings([outer]))
    wall ms  busy ms  waiting ms  of parent  pass
                                             module 'a'
     40.000   10.000      30.000     100.0%    Main (1 failed)
     30.000   10.000      20.000      75.0%      Fold (2 calls)

    """
    sections: dict[str | None, list[PassTiming]] = {}
    for timing in timings:
        sections.setdefault(timing.module, []).append(timing)
    if not sections:
        return "no pass was timed"
    rows = [_HEAD]
    for module, roots in sections.items():
        named = len(sections) > 1 or module is not None
        if named:
            rows.append(("", "", "", "", "no module name" if module is None else f"module {module!r}"))
        rows += _rows(roots, module, sum(one.wall for one in roots), "  " * named)
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD) - 1)]
    return "\n".join("  ".join((*map(str.rjust, row, widths), row[-1])) for row in rows)


def render_passes(timings: Iterable[PassTiming]) -> str:
    """Return timings as a list, a line for each in the given order; those of `timings_by_pass`, say.

    The percentage is that of the wall time of all of them.

    >>> from dataclasses import replace
    >>> fold = PassTiming(name="Fold", module=None, calls=2, failed=1, unfinished=0, wall=0.03, busy=0.01, children=())
    >>> print(render_passes([fold, replace(fold, name="Tune", failed=0, wall=0.01)]))
    wall ms  busy ms  waiting ms  of all  pass
     30.000   10.000      20.000   75.0%  Fold (2 calls, 1 failed)
     10.000   10.000       0.000   25.0%  Tune (2 calls)
    """
    return _listed(timings, "pass", lambda one: _label(one, one.module))


def render_modules(timings: Iterable[PassTiming]) -> str:
    """Return timings as a list of modules, a line for each in the given order; those of `timings_by_module`, say."""
    return _listed(timings, "module", lambda one: "no module name" if one.module is None else one.module)


def render_functions(timings: Iterable[FunctionTiming]) -> str:
    """Return timings of functions as a list, a line for each in the given order."""
    rows = [("wall ms", "busy ms", "waiting ms", "function", "pass")]
    rows += [
        (_ms(one.wall), _ms(one.busy), _ms(one.waiting), _function_label(one), one.path + " (failed)" * one.failed)
        for one in timings
    ]
    return _table(rows, numbers=3) if len(rows) > 1 else "no function was timed"


def timings_as_json(timings: Sequence[PassTiming], functions: Sequence[FunctionTiming] = ()) -> dict[str, Any]:
    """Return what was measured as values for JSON; all times are in seconds.

    The keys are `version` (1), `passes` (the tree), `by_pass` and `by_module` (both without `children`), and
    `functions`. The fields of each are those of `PassTiming` and of `FunctionTiming`, and `waiting`.
    """
    return {
        "version": 1,
        "passes": [_as_json(one, deep=True) for one in timings],
        "by_pass": [_as_json(one, deep=False) for one in timings_by_pass(timings)],
        "by_module": [_as_json(one, deep=False) for one in timings_by_module(timings)],
        "functions": [_function_as_json(one) for one in functions],
    }


def _all(timings: Iterable[PassTiming]) -> Iterator[PassTiming]:
    for one in timings:
        yield one
        yield from _all(one.children)


def _outermost_of_modules(timings: Iterable[PassTiming], around: tuple[str | None, ...] = ()) -> Iterator[PassTiming]:
    """Give each timing that stands beneath no other of its module."""
    for one in timings:
        if one.module not in around:
            yield one
        yield from _outermost_of_modules(one.children, (*around, one.module))


def _sum(name: str, module: str | None, timings: Sequence[PassTiming]) -> PassTiming:
    return PassTiming(
        name=name,
        module=module,
        calls=sum(one.calls for one in timings),
        failed=sum(one.failed for one in timings),
        unfinished=sum(one.unfinished for one in timings),
        wall=sum(one.wall for one in timings),
        busy=sum(one.busy for one in timings),
        children=(),
    )


def _longest_first(timings: Iterable[PassTiming]) -> tuple[PassTiming, ...]:
    return tuple(sorted(timings, key=lambda one: (-one.wall, one.name, one.module or "")))


def _as_json(timing: PassTiming, *, deep: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": timing.name,
        "module": timing.module,
        "calls": timing.calls,
        "failed": timing.failed,
        "unfinished": timing.unfinished,
        "wall": timing.wall,
        "busy": timing.busy,
        "waiting": timing.waiting,
    }
    return shown | {"children": [_as_json(one, deep=True) for one in timing.children]} if deep else shown


def _function_as_json(timing: FunctionTiming) -> dict[str, Any]:
    return {
        "function": timing.function,
        "module": timing.module,
        "path": timing.path,
        "failed": timing.failed,
        "wall": timing.wall,
        "busy": timing.busy,
        "waiting": timing.waiting,
    }


def _function_label(timing: FunctionTiming) -> str:
    return timing.function if timing.module is None else f"{timing.module}:{timing.function}"


def _listed(timings: Iterable[PassTiming], what: str, label: Callable[[PassTiming], str]) -> str:
    found = list(timings)
    whole = sum(one.wall for one in found)
    rows = [("wall ms", "busy ms", "waiting ms", "of all", what)]
    rows += [
        (_ms(one.wall), _ms(one.busy), _ms(one.waiting), f"{one.wall / whole:.1%}" if whole else "", label(one))
        for one in found
    ]
    return _table(rows, numbers=4) if found else "no pass was timed"


def _table(rows: Sequence[Sequence[str]], numbers: int) -> str:
    """Return rows as lines: so many columns of numbers to the right, then text to the left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(text.rjust(width) if at < numbers else text.ljust(width) for at, (text, width) in enumerate(cells))
        for cells in (list(zip(row, widths, strict=True)) for row in rows)
    ]
    return "\n".join(line.rstrip() for line in lines)


_Row = tuple[str, str, str, str, str]

_HEAD: _Row = ("wall ms", "busy ms", "waiting ms", "of parent", "pass")


def _rows(timings: Iterable[PassTiming], module: str | None, whole: float, indent: str) -> Iterator[_Row]:
    for one in timings:
        share = f"{one.wall / whole:.1%}" if whole else ""
        yield _ms(one.wall), _ms(one.busy), _ms(one.waiting), share, indent + _label(one, module)
        yield from _rows(one.children, one.module, one.wall, indent + "  ")


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3f}"


def _label(timing: PassTiming, module: str | None) -> str:
    counts = (timing.calls if timing.calls > 1 else 0, timing.failed, timing.unfinished)
    said = [f"{n} {what}" for n, what in zip(counts, ("calls", "failed", "unfinished"), strict=True) if n]
    elsewhere = "" if timing.module == module else f" [module {timing.module!r}]"
    return timing.name + elsewhere + (f" ({', '.join(said)})" if said else "")
