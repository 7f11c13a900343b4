"""`bisect`: finds the first pass, and the function, whose change fails a check."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic

from apass.concurrency.coroutines import await_once
from apass.core.adapter import ModT, adapter_for
from apass.core.context import current_scope
from apass.core.displayed import Displayed
from apass.core.module_diff import ModuleDiff
from apass.core.position import Position
from apass.core.view import diff_block
from apass.display.blocks import Group, Span
from apass.errors import BisectError
from apass.instruments.opt_bisect import BisectInstrument, BisectStep
from apass.passes.base import Pass
from apass.passes.function_pass import FunctionPass
from apass.pipelines.parser import as_pass

__all__ = ["Bisected", "Check", "bisect"]

Check = Callable[[ModT], bool | Awaitable[bool]]
"""Returns whether a module is good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisected(Displayed, Generic[ModT]):
    """The first bad pass, and the function that it broke."""

    number: int
    """Number of the first pass that makes the module bad, as in `BisectInstrument`."""
    total: int
    """Number of passes."""
    position: Position
    """Position of the bad pass in the pipeline."""
    function: str | None
    """For a function pass, the first function whose change makes the module bad."""
    alone: bool
    """Whether the change of that function alone makes the module bad.

    If not, the changes of earlier functions are required too.
    """
    before: ModT
    """The module before the bad pass, which is good."""
    after: ModT
    """The module after the bad pass.

    If `function` is set, it contains the change of that function alone, or the changes up to it.
    """
    checks: int
    """Number of modules that were checked."""

    def __block__(self) -> Group:
        return Group([(Span(str(self), "bad"),), diff_block(self.before, self.after, 3)])

    @property
    def diff(self) -> str:
        """Unified diff of the changed functions before and after the pass.

        It is empty if the text does not show the change.
        """
        return ModuleDiff.of(self.before, self.after).text()

    def __str__(self) -> str:
        """Return a one-line summary."""
        name = self.position.steps[-1][1]
        where = "" if self.function is None else f" in function {self.function}"
        more = "" if self.function is None or self.alone else ", together with functions before it"
        return f"the first bad pass is ({self.number}) {name} at {self.position}{where}{more}"


async def bisect(
    mod: ModT, pass_: Pass[ModT] | str, check: Check[ModT], *, report: Callable[[str], object] | None = None
) -> Bisected[ModT]:
    """Find the first pass whose change makes `check` fail.

    For a function pass, find the function too.

    The passes run again for each attempt, up to a limit (see `BisectInstrument`). They run in a context with the
    level, names and options of the current one. The number of attempts is about the binary logarithm of the number of
    passes. A module that equals a checked one is not checked again. Passes in `required_pass` of the context always
    run.

    Parameters:
        mod: the module, which must be good.
        pass_: the pass that makes it bad, or the text of a pipeline.
        check: returns whether a module is good; `def` or `async def`.
        report: called with a line about each attempt.

    Raises:
        TypeError: if `pass_` is neither a pass nor a text.
        BisectError: if the input module is bad, the optimized one is good, or a pass fails.
        Exception: any exception of `check`.

    >>> import anyio
    >>> from apass import Sequential, module_pass
    >>> add = module_pass(lambda mod, ctx: {"f": mod["f"] + 1}, opt_level=0, name="Add")
    >>> double = module_pass(lambda mod, ctx: {"f": 2 * mod["f"]}, opt_level=0, name="Double")
    >>> print(anyio.run(bisect, {"f": 1}, Sequential([add, double, add]), lambda mod: mod["f"] < 4))
    the first bad pass is (2) Double at 0:sequential/1:Double

    """
    search = _Bisection(mod, as_pass("bisect(mod, pass_, check)", pass_), check, report or _ignore)
    return await search.run()


class _Bisection(Generic[ModT]):
    """A search for the first bad pass."""

    def __init__(self, mod: ModT, pass_: Pass[ModT], check: Check[ModT], report: Callable[[str], object]) -> None:
        self.mod = mod
        self.pass_ = pass_
        self.check = check
        self.report = report
        self.ctx: Final = current_scope().ctx
        self.results: dict[int, ModT] = {}
        # Keep the modules alive: a fingerprint may depend on the identity of live objects.
        self.verdicts: dict[str, tuple[bool, ModT]] = {}

    async def run(self) -> Bisected[ModT]:
        """Search, and return the result."""
        if not await self.is_good(self.mod, "the untouched module"):
            raise BisectError("the untouched module is bad before any pass; correct the check or the module")
        steps = await self.all_steps()
        total = len(steps)
        if await self.is_good(self.results[total], f"after all {total} passes"):
            raise BisectError(
                f"the module is good after all {total} passes; the check must fail on the optimized module"
            )
        if self.ctx.required_pass and not await self.is_good(await self.after(0), "with required passes only"):
            names = ", ".join(sorted(self.ctx.required_pass))
            raise BisectError(f"the bad pass is in required_pass of the context, which bisect cannot skip: {names}")

        async def is_good_after(limit: int) -> bool:
            return await self.is_good(await self.after(limit), f"after {_passes(limit)}")

        return await self.describe(steps[await _first_bad(total, is_good_after) - 1], total)

    async def all_steps(self) -> list[BisectStep]:
        """Run all passes, and return their steps."""
        steps: list[BisectStep] = []
        mod = await self.run_with(BisectInstrument(-1, report=steps.append))
        self.results[len(steps)] = mod
        return steps

    async def after(self, limit: int) -> ModT:
        """Return the module after the first `limit` passes."""
        if limit not in self.results:
            self.results[limit] = await self.run_with(BisectInstrument(limit))
        return self.results[limit]

    async def run_with(self, instrument: BisectInstrument) -> ModT:
        """Run the passes that an instrument permits."""
        ctx = self.ctx
        context = ctx.replace(
            instruments=[instrument, ctx.run_settings], diag_ctx=None, executor=None, deadline=None, store=None
        )
        try:
            async with context:
                result, inner = await self.pass_(self.mod), current_scope()
                # Names that match no pass are reported by the caller's context, not by each attempt's.
                inner.expected.update(ctx.disabled_pass, ctx.required_pass)
                return result
        except (Exception, SystemExit) as error:  # SystemExit would end this process without a message
            raise BisectError(
                f"a pass raised {type(error).__name__}: {error}; "
                "find its cause first, with a ReproducerInstrument or apass opt --reproducer DIR"
            ) from error

    async def is_good(self, mod: ModT, label: str) -> bool:
        """Return whether a module is good; check each distinct module once."""
        key = f"{type(mod).__qualname__} {adapter_for(mod).fingerprint(mod)}"
        if key in self.verdicts:
            good = self.verdicts[key][0]
            self.report(f"{label}: {_verdict_text(good)} (already checked)")
            return good
        verdict = await await_once(self.check(mod), "the check")
        if verdict is None:
            raise BisectError("the check returned None; it must return whether the module is good")
        good = bool(verdict)
        self.verdicts[key] = (good, mod)
        self.report(f"{label}: {_verdict_text(good)}")
        return good

    async def describe(self, step: BisectStep, total: int) -> Bisected[ModT]:
        """Return the result for the bad pass, with the function of a function pass."""
        before, after = await self.after(step.number - 1), await self.after(step.number)
        function, is_sufficient = None, True
        if isinstance(step.pass_, FunctionPass):
            function, is_sufficient, after = await self.function(before, after)
        return Bisected(
            number=step.number,
            total=total,
            position=step.position,
            function=function,
            alone=is_sufficient,
            before=before,
            after=after,
            checks=len(self.verdicts),
        )

    async def function(self, before: ModT, after: ModT) -> tuple[str | None, bool, ModT]:
        """Find the first function whose change makes the module bad.

        Return its name, whether its change alone is bad, and the bad module.
        """
        adapter = adapter_for(before)
        old = dict(adapter.functions(before))
        changed_functions = {name: func for name, func in adapter.functions(after) if func is not old.get(name)}
        names = list(changed_functions)
        if len(names) < 2:
            return (names[0] if names else None), True, after

        def changed(some: list[str]) -> ModT:
            return adapter.replace(before, {name: changed_functions[name] for name in some})

        async def is_good_with(count: int) -> bool:
            return await self.is_good(changed(names[:count]), f"with {count} of {len(names)} functions changed")

        bad = await _first_bad(len(names), is_good_with)
        name = names[bad - 1]
        if not await self.is_good(changed([name]), f"with {name} alone changed"):
            return name, True, changed([name])
        return name, False, changed(names[:bad])


async def _first_bad(last: int, is_good: Callable[[int], Awaitable[bool]]) -> int:
    """Return the first bad number by binary search.

    0 is good, and `last` is bad.
    """
    good, bad = 0, last
    while bad - good > 1:
        middle = (good + bad) // 2
        if await is_good(middle):
            good = middle
        else:
            bad = middle
    return bad


def _passes(number: int) -> str:
    return "pass 1" if number == 1 else f"passes 1-{number}"


def _verdict_text(good: bool) -> str:
    return "good" if good else "bad"


def _ignore(line: str) -> None:
    """Do nothing."""
