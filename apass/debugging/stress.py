"""`stress`: searches for an interleaving of bodies that changes the result."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Generic

from apass.concurrency.interleaving import InterleavingScheduler, Schedule
from apass.core.adapter import ModT, adapter_for
from apass.core.context import current_scope
from apass.core.displayed import Displayed
from apass.core.instrument import pass_instrument
from apass.core.module_diff import ModuleDiff
from apass.core.pass_info import PassInfo
from apass.core.position import Position, PositionTracker
from apass.core.run import current_run
from apass.instruments.reproducer.folder import Failure
from apass.passes.base import Pass
from apass.pipelines.parser import as_pass
from apass.util.checks import is_count
from apass.util.delta_debugging import ddmin

__all__ = ["Stressed", "stress"]

TRIES: Final = 10
"""The number of seeds with which each smaller set of functions is tried."""

REPEATS: Final = 4
"""How often the two interleavings that differ are repeated, to find passes that are not deterministic."""

IN_ORDER: Final = Schedule(0, ())
"""One body after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stressed(Displayed, Generic[ModT]):
    """An interleaving whose result differs from that of one body after the other.

    If a pass is not deterministic, it is an interleaving whose result differs from that of an earlier run.
    """

    schedule: Schedule
    """The interleaving, for `apass.testing.scheduled`; its functions are those that matter."""
    position: Position
    """The position of the first pass whose result differs."""
    steps: tuple[str, ...]
    """The functions whose bodies make a step, in order, for the functions that matter."""
    expected: ModT | Failure
    """The result of one body after the other, or the failure."""
    found: ModT | Failure
    """The result of the interleaving, or the failure."""
    tries: int
    """The number of interleavings that ran."""
    is_deterministic: bool = True
    """Whether the results of an interleaving are equal; otherwise its order explains nothing."""

    @property
    def diff(self) -> str:
        """Unified diff of the two results, or their failures."""
        if isinstance(self.expected, Failure) or isinstance(self.found, Failure):
            return "\n".join(
                f"{sign}{side if isinstance(side, Failure) else 'no failure'}"
                for sign, side in (("-", self.expected), ("+", self.found))
            )
        return ModuleDiff.of(self.expected, self.found).text()

    def __str__(self) -> str:
        """Return a summary of two lines."""
        subject = f"pass {self.position.steps[-1][1]} at {self.position}"
        if not self.is_deterministic:
            advice = "pass a seed to its random numbers, and keep no state between runs"
            return f"{subject} is not deterministic: two runs with the same order of steps differ\n{advice}"
        functions = " and ".join(self.schedule.functions or ())
        return (
            f"seed {self.schedule.seed}: {subject} depends on the order of the bodies of {functions}\n"
            f"steps: {' '.join(self.steps)}"
        )


async def stress(
    mod: ModT, pass_: Pass[ModT] | str, *, seeds: int = 200, report: Callable[[int], object] | None = None
) -> Stressed[ModT] | None:
    """Search for an interleaving of concurrent bodies whose result differs.

    The passes run once with one body after the other, and then in interleavings that are drawn from the seeds 0 to
    `seeds - 1`, until the result or the failure differs. Both interleavings are then repeated: if the results of one
    differ, a pass is not deterministic. Otherwise the set of interleaved functions is reduced to those that matter,
    which are two for a data race between two bodies. The passes run in contexts like the current one, without its
    instruments and its store.

    Parameters:
        mod: the module.
        pass_: the pass, or the text of a pipeline.
        seeds: the number of interleavings to try.
        report: called with the number of interleavings that ran, after each.

    Returns:
        The smallest interleaving found, or None if all results are equal.

    Raises:
        TypeError: if `pass_` is neither a pass nor a text.
        ValueError: if `seeds` is not a positive int.

    >>> import anyio
    >>> from apass import function_pass, module_pass
    >>> async def count(mod, ctx):
    ...     total = [0]
    ...     async def body(func, mod, ctx):
    ...         before = total[0]
    ...         await anyio.lowlevel.checkpoint()
    ...         total[0] = before + func
    ...         return func
    ...     await function_pass(body, opt_level=0, name="Add")(mod)
    ...     return {**mod, "total": total[0]}
    >>> found = anyio.run(stress, {"f": 1, "g": 1}, module_pass(count, opt_level=0, name="Count"))
    >>> found.schedule.functions, found.expected["total"], found.found["total"]
    (('f', 'g'), 2, 1)

    """
    if not is_count(seeds):
        raise ValueError(f"seeds must be an int of at least 1, got {seeds!r}")
    search = _Search(mod, as_pass("stress(mod, pass_)", pass_), report or _ignore)
    return await search.run(seeds)


@dataclass(frozen=True, slots=True)
class _Outcome(Generic[ModT]):
    """What one schedule led to."""

    result: ModT | Failure
    """The module or the failure."""
    identity: tuple[str, str]
    """Is equal for equal results."""
    fingerprints: dict[Position, str]
    """The fingerprint of the result of each pass, by its position."""
    trace: tuple[tuple[str, str], ...]
    """The pass and the function of each step."""


class _Search(Generic[ModT]):
    """A search for an interleaving that differs, and then for a smaller one."""

    def __init__(self, mod: ModT, pass_: Pass[ModT], report: Callable[[int], object]) -> None:
        self.mod = mod
        self.pass_ = pass_
        self.report = report
        self.ctx: Final = current_scope().ctx
        self.tries = 0

    async def run(self, seeds: int) -> Stressed[ModT] | None:
        """Search, and return the result."""
        expected = await self.outcome(IN_ORDER)
        for seed in range(seeds):
            found = await self.outcome(Schedule(seed))
            if found.identity != expected.identity:
                for schedule, first in ((IN_ORDER, expected), (Schedule(seed), found)):
                    for _ in range(REPEATS):
                        again = await self.outcome(schedule)
                        if again.identity != first.identity:
                            return self.unstable(schedule, first, again)
                return await self.reduce(Schedule(seed), expected, found)
        return None

    def unstable(self, schedule: Schedule, first: _Outcome[ModT], again: _Outcome[ModT]) -> Stressed[ModT]:
        """Return the result for two runs of one interleaving that differ."""
        return Stressed(
            schedule=schedule,
            position=_first_difference(first, again),
            steps=(),
            expected=first.result,
            found=again.result,
            tries=self.tries,
            is_deterministic=False,
        )

    async def reduce(self, schedule: Schedule, expected: _Outcome[ModT], found: _Outcome[ModT]) -> Stressed[ModT]:
        """Remove functions from an interleaving while the result differs."""
        # In the order of the module, in which the bodies run one after the other.
        names = list(dict.fromkeys(name for _, name in (*expected.trace, *found.trace)))
        best = (schedule, found)

        async def differs_without(removed: frozenset[int]) -> bool:
            nonlocal best
            functions = tuple(name for index, name in enumerate(names) if index not in removed)
            # The order of the same seed changes with the functions. Of the orders of two bodies, most seeds try others.
            for seed in dict.fromkeys((best[0].seed, *range(TRIES))):
                smaller = Schedule(seed, functions)
                outcome = await self.outcome(smaller)
                if outcome.identity != expected.identity:
                    best = (smaller, outcome)
                    return True
            return False

        await ddmin(len(names), differs_without)
        smallest, outcome = best
        if smallest.functions == ():
            return self.unstable(smallest, expected, outcome)
        position = _first_difference(expected, outcome)
        functions = names if smallest.functions is None else smallest.functions
        depth = len(position.order)
        owners = {other.steps[-1][1] for other in outcome.fingerprints if other.order[:depth] == position.order}
        return Stressed(
            schedule=Schedule(smallest.seed, tuple(functions)),
            position=position,
            steps=tuple(name for owner, name in outcome.trace if owner in owners and name in functions),
            expected=expected.result,
            found=outcome.result,
            tries=self.tries,
        )

    async def outcome(self, schedule: Schedule) -> _Outcome[ModT]:
        """Run the passes under a schedule."""
        results = _Results()
        context = self.ctx.replace(
            instruments=[results, replace(self.ctx.run_settings, schedule=schedule)],
            store=None,
            executor=None,
            deadline=None,
            diag_ctx=None,
        )
        result: ModT | Failure
        try:
            async with context:
                # Names that match no pass are reported by the caller's context.
                current_scope().expected.update(context.disabled_pass, context.required_pass)
                result = await self.pass_(self.mod)
            identity = ("result", adapter_for(result).fingerprint(result))
        except (Exception, SystemExit) as error:  # SystemExit would end this process without a message
            result = Failure.of(error)
            identity = (result.type, result.message)
        self.tries += 1
        self.report(self.tries)
        scheduler = context.default_scope().state.scheduler
        trace = tuple(scheduler.trace) if isinstance(scheduler, InterleavingScheduler) else ()
        return _Outcome(result, identity, results.fingerprints, trace)


@pass_instrument
class _Results:
    """Keeps the fingerprint of the result of each pass."""

    def __init__(self) -> None:
        self.fingerprints: dict[Position, str] = {}
        self._positions = PositionTracker()

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        run = current_run()
        if run is not None:
            self.fingerprints[self._positions.begin(run)] = ""

    def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        run = current_run()
        position = None if run is None else self._positions.position(run)
        if position is not None:
            self.fingerprints[position] = adapter_for(mod).fingerprint(mod)


def _first_difference(expected: _Outcome[Any], found: _Outcome[Any]) -> Position:
    """Return the position of the first innermost pass whose result differs."""
    positions = {**expected.fingerprints, **found.fingerprints}
    different = {
        position.order: position
        for position in positions
        if expected.fingerprints.get(position) != found.fingerprints.get(position)
    }
    # Without a difference, the passes fail at the same position in different ways.
    order = min(different, default=max(position.order for position in positions))
    while inner := [other for other in different if other[:-1] == order]:
        order = min(inner)
    return different.get(order) or next(position for position in positions if position.order == order)


def _ignore(*_arguments: object) -> None:
    """Do nothing."""
