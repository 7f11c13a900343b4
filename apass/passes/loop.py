"""`Loop`, the base of `Repeat`, `While` and `MinimumPoint`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import anyio

from apass.core.adapter import ModT, adapter_for
from apass.core.context import PassContext
from apass.errors import PassDefinitionError
from apass.passes.base import Pass
from apass.passes.combinator import Combinator
from apass.passes.sequential import Sequential
from apass.runner.changes import tentative_changes
from apass.util.checks import is_count, is_seconds

__all__ = ["MAX_ROUNDS", "Loop", "module_key"]

MAX_ROUNDS: Final = 100
"""Maximum number of rounds of a loop without `times`."""


class Loop(Combinator[ModT]):
    """Passes that run in rounds, each on the result of the round before.

    Within a round, the passes run by the rules of a Sequential.

    Parameters:
        passes: the passes of a round, in order.
        options: the options of the text, in order; None for a default value.
        times: the maximum number of rounds; None is `MAX_ROUNDS`.
        budget: seconds for all rounds; None is no limit. When they are over, the round in progress is cancelled, and
            the rounds before it count.
        opt_level: the level of the loop itself as an element of a Sequential.
        name: its name.
        required: the passes that it requires as an element of a Sequential.

    """

    def __init__(
        self,
        passes: Sequence[Pass[ModT]],
        options: Mapping[str, object],
        times: int | None,
        budget: float | None,
        opt_level: int,
        name: str,
        required: Sequence[str] | None,
    ) -> None:
        set_options = {key: value for key, value in options.items() if value is not None}
        super().__init__(passes, set_options, opt_level, name, required)
        if times is not None and not is_count(times):
            raise PassDefinitionError(
                f"times must be an int of at least 1, or None for up to {MAX_ROUNDS} rounds, got {times!r}"
            )
        if budget is not None and not is_seconds(budget):
            raise PassDefinitionError(f"budget must be a number of seconds above 0 or None, got {budget!r}")
        self.times: Final = times
        """The maximum number of rounds; None is `MAX_ROUNDS`."""
        self.budget: Final = budget
        """Seconds for all rounds; None is no limit."""
        self._round = Sequential(self.passes)

    @property
    def max_rounds(self) -> int:
        """The maximum number of rounds."""
        return MAX_ROUNDS if self.times is None else self.times

    def deadline(self) -> float:
        """Return the time of the event loop at which the budget is over, if it starts now."""
        return math.inf if self.budget is None else anyio.current_time() + self.budget

    async def run_round(self, mod: ModT, ctx: PassContext, deadline: float, number: int) -> ModT | None:
        """Return the result of round `number`.

        Return None, with a note in `ctx.diag_ctx`, if the deadline is over before the round ends.
        """
        if self.budget is None:
            return await self._round.transform(mod, ctx)
        if anyio.current_time() < deadline:
            with anyio.CancelScope(deadline=deadline), tentative_changes() as changes:
                # A round that never suspends cannot be cancelled. Its result is as good as any.
                result = await self._round.transform(mod, ctx)
                changes.accept()
                return result
        message = f"pass {self.info.name!r} ended in round {number}: its budget of {self.budget:g} s is over"
        ctx.diag_ctx.note(message)
        return None


def module_key(mod: Any) -> tuple[type, str]:
    """Return type and fingerprint of a module, which any equal module shares."""
    return (mod.__class__, adapter_for(mod).fingerprint(mod))
