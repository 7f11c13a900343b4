"""`While`: runs passes again as long as a predicate is true."""

from collections.abc import Callable, Sequence
from typing import Final

from apass.core.adapter import ModT
from apass.core.context import PassContext
from apass.errors import PassDefinitionError, PipelineCycleError
from apass.passes.base import Pass
from apass.passes.conditional import holds
from apass.passes.loop import Loop

__all__ = ["While"]


class While(Loop[ModT]):
    """Passes that run in rounds as long as a predicate of the module is true.

    The predicate is called before each round. In a pipeline's text it is written as the name given to
    `register_callable`: `While{predicate=is_large}(A,B)`. Source: the `DoWhileController` of Qiskit, which runs its
    passes once before it asks: `A,B,While{predicate=is_large}(A,B)`.

    Parameters:
        predicate: a function of the module, `def` or `async def`. Its result is tested for truth.
        passes: the passes of a round, in order, by the rules of a Sequential.
        times: the maximum number of rounds. The result of the last round is returned even if the predicate is still
            true. None means 100 rounds, and it is an error if the predicate is true after the last one.
        budget: seconds for all rounds. When they are over, the round in progress is cancelled, and the rounds
            before it count. None is no limit.
        opt_level: the level of this pass itself as an element of a Sequential.
        name: its name.
        required: the passes that it requires as an element of a Sequential.

    Raises (when it runs):
        PassResultError: if the predicate returns None, which suggests a missing `return`.
        PipelineCycleError: if the predicate is still true after 100 rounds, without `times`.

    >>> import anyio
    >>> from apass.passes.decorators import module_pass
    >>> halve = module_pass(lambda mod, ctx: {"f": mod["f"] // 2}, opt_level=0, name="Halve")
    >>> anyio.run(While(lambda mod: mod["f"] > 5, [halve]), {"f": 40})
    {'f': 5}

    """

    def __init__(
        self,
        predicate: Callable[[ModT], object],
        passes: Sequence[Pass[ModT]],
        times: int | None = None,
        budget: float | None = None,
        opt_level: int = 0,
        name: str = "While",
        required: Sequence[str] | None = None,
    ) -> None:
        if not callable(predicate):
            raise PassDefinitionError(f"While takes first a predicate, a function of the module, got {predicate!r}")
        options = {"predicate": predicate, "times": times, "budget": budget}
        super().__init__(passes, options, times, budget, opt_level, name, required)
        self.predicate: Final = predicate
        """The function that decides whether another round runs."""

    async def transform(self, mod: ModT, ctx: PassContext) -> ModT:
        """Run the passes as long as the predicate is true."""
        deadline = self.deadline()
        for rounds in range(1, self.max_rounds + 1):
            if not await holds(self, self.predicate, mod):
                return mod
            new = await self.run_round(mod, ctx, deadline, rounds)
            if new is None:
                return mod
            mod = new
        if self.times is None and await holds(self, self.predicate, mod):
            raise PipelineCycleError(
                f"pass {self.info.name!r} did not end: its predicate is still true after round {self.max_rounds}, the "
                "last one allowed; set `times` to the rounds that it may take, or correct the predicate"
            )
        return mod
