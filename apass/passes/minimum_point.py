"""`MinimumPoint`: runs passes again, and takes the best module of all rounds."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from apass.core.adapter import ModT
from apass.core.context import PassContext
from apass.errors import PassDefinitionError
from apass.passes.base import Pass
from apass.passes.loop import Loop, module_key
from apass.passes.race import score
from apass.runner.changes import tentative_changes
from apass.util.checks import is_count

__all__ = ["MinimumPoint"]

BACKTRACK_DEPTH: Final = 5
"""The default of `backtrack_depth`, as in Qiskit."""


class MinimumPoint(Loop[ModT]):
    """Passes that run in rounds until the module no longer gets better.

    The result is the best module.

    Each round runs on the result of the round before, even if that was worse. The rounds end if one changes nothing, or
    if `backtrack_depth` rounds in succession brought no module with a smaller key. The result is the module with the
    smallest key of all, the input included; among equal keys, the earliest. It therefore suits passes whose results
    vary, such as a search that draws random numbers, which never converge.

    Source: the `MinimumPoint` of Qiskit. That pass also ends at a round whose key equals the smallest one; here, such a
    round counts as one without a smaller key.

    Parameters:
        passes: the passes of a round, in order, by the rules of a Sequential.
        key: a function of the module, `def` or `async def`; smaller is better.
        backtrack_depth: the number of rounds in succession without a smaller key after which the rounds end.
        times: the maximum number of rounds; None means 100.
        budget: seconds for all rounds. When they are over, the round in progress is cancelled, and the result is the
            best module of the rounds before it. None is no limit.
        opt_level: the level of the MinimumPoint itself as an element of a Sequential.
        name: its name.
        required: the passes that it requires as an element of a Sequential.

    Raises (when it runs):
        PassResultError: if the key function returns None or NaN, which cannot be ordered.
        AdapterError: if a pass changes the module and no adapter supports its type.

    >>> import anyio
    >>> from apass.passes.decorators import module_pass
    >>> step = module_pass(lambda mod, ctx: {"f": mod["f"] + 1}, opt_level=0, name="Step")
    >>> anyio.run(MinimumPoint([step], key=lambda mod: (mod["f"] - 3) ** 2), {"f": 0})
    {'f': 3}

    """

    def __init__(
        self,
        passes: Sequence[Pass[ModT]],
        key: Callable[[ModT], Any],
        backtrack_depth: int = BACKTRACK_DEPTH,
        times: int | None = None,
        budget: float | None = None,
        opt_level: int = 0,
        name: str = "MinimumPoint",
        required: Sequence[str] | None = None,
    ) -> None:
        if not callable(key):
            raise PassDefinitionError(f"key must be a function of the module, got {key!r}")
        if not is_count(backtrack_depth):
            raise PassDefinitionError(f"backtrack_depth must be an int of at least 1, got {backtrack_depth!r}")
        depth = None if backtrack_depth == BACKTRACK_DEPTH else backtrack_depth
        options = {"key": key, "backtrack_depth": depth, "times": times, "budget": budget}
        super().__init__(passes, options, times, budget, opt_level, name, required)
        self.key: Final = key
        """The function that rates a module."""
        self.backtrack_depth: Final = backtrack_depth
        """The number of rounds in succession without a smaller key after which the rounds end."""

    async def transform(self, mod: ModT, ctx: PassContext) -> ModT:
        """Run the passes until the module no longer gets better."""
        deadline = self.deadline()
        best, smallest = mod, await score(self, self.key, mod, "the input module")
        without_gain, contents = 0, None
        with tentative_changes() as changes:
            for rounds in range(1, self.max_rounds + 1):
                new = await self.run_round(mod, ctx, deadline, rounds)
                # None if the budget is over.
                if new is None or new is mod:
                    break
                before, contents = contents or module_key(mod), module_key(new)
                if before == contents:
                    break
                rating = await score(self, self.key, new, f"the result of round {rounds}")
                if rating < smallest:
                    best, smallest, without_gain = new, rating, 0
                    changes.accept()
                else:
                    without_gain += 1
                    if without_gain == self.backtrack_depth:
                        break
                mod = new
        return best
