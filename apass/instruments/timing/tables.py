"""Times of passes and functions as values, tables and JSON."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apass.display.blocks import Bar, Block, Line, Row, Span, Table, limited
from apass.util.text import aligned_rows

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
    """Seconds that a pass took at a position of a pipeline, over all its calls."""

    name: str
    """The name of the pass."""
    module: str | None
    """The name of the module, as passed to `optimize_all`. None without a name, or if modules are merged."""
    calls: int
    """Number of calls that have ended, including failed ones. The times cover these calls."""
    failed: int
    """Number of calls that raised or were cancelled."""
    unfinished: int
    """Number of calls without an end so far: they still run, or the instrument was removed meanwhile."""
    wall: float
    """Time from the start of the work to its end, without the hooks around it."""
    busy: float
    """Time on the event loop. Includes called passes and function bodies, but not tasks that the pass started."""
    hooks_wall: float = 0.0
    """The part of `wall` in which hooks of instruments ran, around the passes that it called and its bodies."""
    hooks_busy: float = 0.0
    """The part of `busy` in which they ran."""
    children: tuple["PassTiming", ...]
    """The passes that it called, in the order of their first calls."""

    @property
    def waiting(self) -> float:
        """Waiting time, including time in the scheduler's queue.

        The value is exact, because the steps in `busy` are disjoint parts of `wall`.
        """
        return self.wall - self.busy

    @classmethod
    def __block_of__(cls, items: Sequence["PassTiming"]) -> Block:
        if not items:
            return (Span("no pass was timed", "muted"),)
        longest = max(timing.wall for timing in items)
        return limited(Table(_TIMES, list(_timing_rows(items, None, longest, 0)), numbers=3))


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTiming:
    """Seconds that a function pass took for a single function."""

    module: str | None
    """The name of the module, or None if it has no name."""
    function: str
    """The name of the function."""
    path: str
    """The names of the passes, from the outermost to the function pass, separated by slashes."""
    failed: bool
    """Whether the body raised or was cancelled."""
    wall: float
    """Time from the start of the body to its end."""
    busy: float
    """Time on the event loop."""

    @property
    def waiting(self) -> float:
        """Waiting time, including time in the scheduler's queue."""
        return self.wall - self.busy

    @classmethod
    def __block_of__(cls, items: Sequence["FunctionTiming"]) -> Block:
        if not items:
            return (Span("no function was timed", "muted"),)
        longest = max(timing.wall for timing in items)
        rows: list[Row] = []
        for timing in items:
            module = () if timing.module is None else (Span(f"{timing.module}:", "muted"),)
            failed = (Span("  failed", "bad"),) if timing.failed else ()
            label = (*module, Span(timing.function, "name"), Span(f"  {timing.path}", "muted"), *failed)
            rows.append(_times_row(timing.wall, timing.busy, longest, label))
        return limited(Table((*_TIMES[:-1], "function"), rows, numbers=3))


_TIMES: Final = ("wall ms", "busy ms", "waiting ms", "busy, waiting", "pass")
_NOTABLE: Final = 0.01
"""Hooks of instruments have a row of their own if they took more than this share of the longest time."""


def _timing_rows(timings: Iterable[PassTiming], module: str | None, longest: float, depth: int) -> Iterator[Row]:
    for timing in timings:
        counts = (timing.calls if timing.calls > 1 else 0, timing.failed, timing.unfinished)
        notes = [
            f"{count} {noun}" for count, noun in zip(counts, ("calls", "failed", "unfinished"), strict=True) if count
        ]
        label: Line = (Span(timing.name, "name"),)
        if timing.module is not None and timing.module != module:
            label = (*label, Span(f"  module {timing.module!r}", "muted"))
        if notes:
            label = (*label, Span(f"  {', '.join(notes)}", "bad" if timing.failed else "muted"))
        yield _times_row(timing.wall, timing.busy, longest, label, depth)
        yield from _timing_rows(timing.children, timing.module, longest, depth + 1)
        if timing.hooks_wall > _NOTABLE * longest:
            hooks = (Span("(hooks of instruments)", "muted"),)
            yield _times_row(timing.hooks_wall, timing.hooks_busy, longest, hooks, depth + 1)


def _times_row(wall: float, busy: float, longest: float, label: Line, depth: int = 0) -> Row:
    times: list[Line] = [(Span(f"{seconds * 1000:.3f}"),) for seconds in (wall, busy, wall - busy)]
    return Row([*times, Bar.of(busy, wall - busy, longest), label], depth)


def timings_by_pass(timings: Iterable[PassTiming]) -> tuple[PassTiming, ...]:
    """Return the sum for each pass over all positions and modules, longest first.

    A pass that calls itself counts once for each call, as in MLIR's list. The sums may exceed the total time.

    >>> from dataclasses import replace
    >>> inner = PassTiming(name="Fold", module="a", calls=2, failed=0, unfinished=0, wall=0.03, busy=0.01, children=())
    >>> outer = replace(inner, name="Main", calls=1, wall=0.07, children=(inner, inner))
    >>> [(timing.name, timing.calls, timing.wall) for timing in timings_by_pass([outer])]
    [('Main', 1, 0.07), ('Fold', 4, 0.06)]
    """
    groups: dict[str, list[PassTiming]] = {}
    for timing in _all(timings):
        groups.setdefault(timing.name, []).append(timing)
    return _longest_first(_sum(name, None, group) for name, group in groups.items())


def timings_by_module(timings: Iterable[PassTiming]) -> tuple[PassTiming, ...]:
    """Return the sum for each module over its outermost passes, longest first.

    The name of each timing is the names of these passes, joined by "+".
    """
    groups: dict[str | None, list[PassTiming]] = {}
    for timing in _outermost_of_modules(timings):
        groups.setdefault(timing.module, []).append(timing)
    return _longest_first(
        _sum("+".join(dict.fromkeys(timing.name for timing in group)), module, group)
        for module, group in groups.items()
    )


def render_timings(timings: Iterable[PassTiming]) -> str:
    """Return timings as a table: a tree of passes for each module.

    The percentage is relative to the wall time of the parent. For an outermost pass, it is relative to the section. It
    exceeds 100 if a parent runs passes concurrently.

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
        rows += _rows(roots, module, sum(timing.wall for timing in roots), "  " * named)
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD) - 1)]
    return "\n".join("  ".join((*map(str.rjust, row, widths), row[-1])) for row in rows)


def render_passes(timings: Iterable[PassTiming]) -> str:
    """Return timings, such as those of `timings_by_pass`, as a list.

    The percentage is relative to the sum of all wall times.

    >>> from dataclasses import replace
    >>> fold = PassTiming(name="Fold", module=None, calls=2, failed=1, unfinished=0, wall=0.03, busy=0.01, children=())
    >>> print(render_passes([fold, replace(fold, name="Tune", failed=0, wall=0.01)]))
    wall ms  busy ms  waiting ms  of all  pass
     30.000   10.000      20.000   75.0%  Fold (2 calls, 1 failed)
     10.000   10.000       0.000   25.0%  Tune (2 calls)
    """
    return _list(timings, "pass", lambda timing: _label(timing, timing.module))


def render_modules(timings: Iterable[PassTiming]) -> str:
    """Return timings, such as those of `timings_by_module`, as a list of modules."""
    return _list(timings, "module", lambda timing: "no module name" if timing.module is None else timing.module)


def render_functions(timings: Iterable[FunctionTiming]) -> str:
    """Return timings of functions as a list in the given order."""
    rows = [("wall ms", "busy ms", "waiting ms", "function", "pass")]
    rows += [
        (
            _ms(timing.wall),
            _ms(timing.busy),
            _ms(timing.waiting),
            _function_label(timing),
            timing.path + " (failed)" * timing.failed,
        )
        for timing in timings
    ]
    return aligned_rows(rows, numbers=3) if len(rows) > 1 else "no function was timed"


def timings_as_json(timings: Sequence[PassTiming], functions: Sequence[FunctionTiming] = ()) -> dict[str, Any]:
    """Return the measurements as JSON values, with all times in seconds.

    The keys are `version` (1), `passes` (the tree), `by_pass` and `by_module` (both without `children`), and
    `functions`. The fields of each are those of `PassTiming` and of `FunctionTiming`, and `waiting`.
    """
    return {
        "version": 1,
        "passes": [_as_json(timing, deep=True) for timing in timings],
        "by_pass": [_as_json(timing, deep=False) for timing in timings_by_pass(timings)],
        "by_module": [_as_json(timing, deep=False) for timing in timings_by_module(timings)],
        "functions": [_function_as_json(timing) for timing in functions],
    }


def _all(timings: Iterable[PassTiming]) -> Iterator[PassTiming]:
    for timing in timings:
        yield timing
        yield from _all(timing.children)


def _outermost_of_modules(timings: Iterable[PassTiming], around: tuple[str | None, ...] = ()) -> Iterator[PassTiming]:
    """Iterate over the timings that have no ancestor with the same module."""
    for timing in timings:
        if timing.module not in around:
            yield timing
        yield from _outermost_of_modules(timing.children, (*around, timing.module))


def _sum(name: str, module: str | None, timings: Sequence[PassTiming]) -> PassTiming:
    return PassTiming(
        name=name,
        module=module,
        calls=sum(timing.calls for timing in timings),
        failed=sum(timing.failed for timing in timings),
        unfinished=sum(timing.unfinished for timing in timings),
        wall=sum(timing.wall for timing in timings),
        busy=sum(timing.busy for timing in timings),
        hooks_wall=sum(timing.hooks_wall for timing in timings),
        hooks_busy=sum(timing.hooks_busy for timing in timings),
        children=(),
    )


def _longest_first(timings: Iterable[PassTiming]) -> tuple[PassTiming, ...]:
    return tuple(sorted(timings, key=lambda timing: (-timing.wall, timing.name, timing.module or "")))


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
        "hooks_wall": timing.hooks_wall,
        "hooks_busy": timing.hooks_busy,
    }
    return shown | {"children": [_as_json(timing, deep=True) for timing in timing.children]} if deep else shown


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


def _list(timings: Iterable[PassTiming], heading: str, label: Callable[[PassTiming], str]) -> str:
    items = list(timings)
    whole = sum(item.wall for item in items)
    rows = [("wall ms", "busy ms", "waiting ms", "of all", heading)]
    rows += [
        (_ms(item.wall), _ms(item.busy), _ms(item.waiting), f"{item.wall / whole:.1%}" if whole else "", label(item))
        for item in items
    ]
    return aligned_rows(rows, numbers=4) if items else "no pass was timed"


_Row = tuple[str, str, str, str, str]

_HEAD: _Row = ("wall ms", "busy ms", "waiting ms", "of parent", "pass")


def _rows(timings: Iterable[PassTiming], module: str | None, whole: float, indent: str) -> Iterator[_Row]:
    for timing in timings:
        share = f"{timing.wall / whole:.1%}" if whole else ""
        yield _ms(timing.wall), _ms(timing.busy), _ms(timing.waiting), share, indent + _label(timing, module)
        yield from _rows(timing.children, timing.module, timing.wall, indent + "  ")
        if timing.hooks_wall:
            wall, busy = timing.hooks_wall, timing.hooks_busy
            share = f"{wall / timing.wall:.1%}" if timing.wall else ""
            yield _ms(wall), _ms(busy), _ms(wall - busy), share, f"{indent}  (hooks of instruments)"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3f}"


def _label(timing: PassTiming, module: str | None) -> str:
    counts = (timing.calls if timing.calls > 1 else 0, timing.failed, timing.unfinished)
    notes = [f"{n} {noun}" for n, noun in zip(counts, ("calls", "failed", "unfinished"), strict=True) if n]
    module_note = "" if timing.module == module else f" [module {timing.module!r}]"
    return timing.name + module_note + (f" ({', '.join(notes)})" if notes else "")
