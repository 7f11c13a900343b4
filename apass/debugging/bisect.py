"""`bisect`: the first pass, and the function, whose effect makes a check fail; for finding what is to blame."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Generic

from apass.concurrency.coroutines import is_awaitable
from apass.core.adapter import ModT, adapter_for
from apass.core.context import PassContext, current_scope
from apass.core.position import Position
from apass.errors import BisectError
from apass.instruments.opt_bisect import BisectInstrument, BisectStep
from apass.passes.base import FunctionPass, Pass
from apass.util.text_diff import diff_texts

__all__ = ["Bisected", "Check", "bisect"]

Check = Callable[[ModT], bool | Awaitable[bool]]
"""Says whether a module is good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisected(Generic[ModT]):
    """What is to blame."""

    number: int
    """The number of the first pass that makes the module bad, as `BisectInstrument` counts."""
    total: int
    """How many passes there are."""
    position: Position
    """Where it stands."""
    function: str | None
    """For a function pass, the first function whose change makes the module bad."""
    alone: bool
    """Whether the change of that function is enough; if not, those of functions before it are needed as well."""
    before: ModT
    """The module before the pass, which is good."""
    after: ModT
    """The module after the pass; where a function is known, with its change alone, or with those up to it."""
    checks: int
    """How many modules were checked."""

    @property
    def diff(self) -> str:
        """What the pass changed, as a unified diff of the module's text; "" where the text does not show it."""
        adapter = adapter_for(self.before)
        return diff_texts(adapter.to_text(self.before), adapter_for(self.after).to_text(self.after))

    def __str__(self) -> str:
        """Return a line."""
        name = self.position.steps[-1][1]
        where = "" if self.function is None else f" in function {self.function}"
        more = "" if self.function is None or self.alone else ", together with functions before it"
        return f"the first bad pass is ({self.number}) {name} at {self.position}{where}{more}"


async def bisect(
    mod: ModT, pass_: Pass[ModT], check: Check[ModT], *, report: Callable[[str], object] | None = None
) -> Bisected[ModT]:
    """Find the first pass after which `check` says that the module is bad, and for a function pass the function.

    The passes run anew for each try, up to a limit (see `BisectInstrument`), in a context with the level, the names and
    the options of the current one. It takes about as many tries as the number of passes has binary digits. A module
    like one that has been checked is not checked again. Passes in the context's `required_pass` cannot be left out.

    Parameters:
        mod: the module, which must be good.
        pass_: what makes it bad.
        check: returns whether a module is good; `def` or `async def`.
        report: is called with a line about each try.

    Raises:
        BisectError: if the untouched module is bad, the optimized one is good, or a pass fails.
        Exception: what `check` raises.

    >>> import anyio
    >>> from apass import Sequential, module_pass
    >>> add = module_pass(lambda mod, ctx: {"f": mod["f"] + 1}, opt_level=0, name="Add")
    >>> double = module_pass(lambda mod, ctx: {"f": 2 * mod["f"]}, opt_level=0, name="Double")
    >>> print(anyio.run(bisect, {"f": 1}, Sequential([add, double, add]), lambda mod: mod["f"] < 4))
    the first bad pass is (2) Double at 0:sequential/1:Double

    """
    search = _Search(mod, pass_, check, report or _ignore)
    return await search.run()


class _Search(Generic[ModT]):
    """One search."""

    def __init__(self, mod: ModT, pass_: Pass[ModT], check: Check[ModT], report: Callable[[str], object]) -> None:
        self.mod = mod
        self.pass_ = pass_
        self.check = check
        self.report = report
        self.scope: Final = current_scope()
        self.ctx: Final = self.scope.ctx
        self.made: dict[int, ModT] = {}
        # Holds the modules too: a fingerprint may go by the identity of what lives.
        self.known: dict[str, tuple[bool, ModT]] = {}

    async def run(self) -> Bisected[ModT]:
        """Do what `bisect` says."""
        if not await self.is_good(self.mod, "the untouched module"):
            raise BisectError("the untouched module is bad: no pass is to blame; see to it that the check is right")
        steps = await self.all_steps()
        total = len(steps)
        if await self.is_good(self.made[total], f"after all {total} passes"):
            raise BisectError(f"the module is good after all {total} passes: there is nothing to find")
        if self.ctx.required_pass and not await self.is_good(await self.after(0), "with no pass that can be left out"):
            names = ", ".join(sorted(self.ctx.required_pass))
            raise BisectError(f"the passes to blame cannot be left out, because the context requires them: {names}")

        async def is_good_after(limit: int) -> bool:
            return await self.is_good(await self.after(limit), f"after {_passes(limit)}")

        return await self.answer(steps[await _first_bad(total, is_good_after) - 1], total)

    async def all_steps(self) -> list[BisectStep]:
        """Run all the passes, and return them."""
        steps: list[BisectStep] = []
        mod = await self.optimized(BisectInstrument(-1, report=steps.append))
        self.made[len(steps)] = mod
        return steps

    async def after(self, limit: int) -> ModT:
        """Return the module after so many passes."""
        if limit not in self.made:
            self.made[limit] = await self.optimized(BisectInstrument(limit))
        return self.made[limit]

    async def optimized(self, instrument: BisectInstrument) -> ModT:
        """Run the passes that an instrument lets run."""
        ctx = self.ctx
        context = PassContext(
            ctx.opt_level,
            required_pass=ctx.required_pass,
            disabled_pass=ctx.disabled_pass,
            instruments=[instrument],
            config=ctx.config,
            max_concurrency=ctx.max_concurrency,
        )
        try:
            async with context:
                result, inner = await self.pass_(self.mod), current_scope()
                # The caller's context is the one to warn of names that match no pass.
                self.scope.met.update(inner.met)
                inner.met.update(ctx.disabled_pass, ctx.required_pass)
                return result
        except Exception as error:
            raise BisectError(
                f"a pass fails, so there is no module to check: {type(error).__name__}: {error}; a reproducer of the "
                f"failure may help"
            ) from error

    async def is_good(self, mod: ModT, what: str) -> bool:
        """Check a module, unless one like it has been."""
        key = f"{type(mod).__qualname__} {adapter_for(mod).fingerprint(mod)}"
        if key in self.known:
            good = self.known[key][0]
            self.report(f"{what}: {_word(good)}, as one like it was")
            return good
        answer: Any = self.check(mod)
        if is_awaitable(answer):
            answer = await answer
        if answer is None:
            raise BisectError("the check returned None; return whether the module is good")
        good = bool(answer)
        self.known[key] = (good, mod)
        self.report(f"{what}: {_word(good)}")
        return good

    async def answer(self, step: BisectStep, total: int) -> Bisected[ModT]:
        """Return what is known of the pass, with the function that is to blame, if that can be told."""
        before, after = await self.after(step.number - 1), await self.after(step.number)
        function, alone = None, True
        if isinstance(step.pass_, FunctionPass):
            function, alone, after = await self.function(before, after)
        return Bisected(
            number=step.number,
            total=total,
            position=step.position,
            function=function,
            alone=alone,
            before=before,
            after=after,
            checks=len(self.known),
        )

    async def function(self, before: ModT, after: ModT) -> tuple[str | None, bool, ModT]:
        """Return the first function whose change makes the module bad, whether it alone does, and the bad module."""
        adapter = adapter_for(before)
        old = dict(adapter.functions(before))
        changes = {name: func for name, func in adapter.functions(after) if func is not old.get(name)}
        names = list(changes)
        if len(names) < 2:
            return (names[0] if names else None), True, after

        def changed(some: list[str]) -> ModT:
            return adapter.replace(before, {name: changes[name] for name in some})

        async def is_good_with(count: int) -> bool:
            return await self.is_good(changed(names[:count]), f"with {count} of {len(names)} functions changed")

        bad = await _first_bad(len(names), is_good_with)
        name = names[bad - 1]
        if not await self.is_good(changed([name]), f"with {name} alone changed"):
            return name, True, changed([name])
        return name, False, changed(names[:bad])


async def _first_bad(last: int, is_good: Callable[[int], Awaitable[bool]]) -> int:
    """Return the first number that is not good, by asking a few between 0, which is good, and `last`, which is not."""
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


def _word(good: bool) -> str:
    return "good" if good else "bad"


def _ignore(line: str) -> None:
    """Do nothing with a report."""
