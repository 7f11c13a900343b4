"""`Repeat`: runs passes again until nothing changes."""

from collections.abc import Sequence
from typing import Final

from apass.core.adapter import ModT
from apass.core.context import PassContext
from apass.errors import PipelineCycleError
from apass.passes.base import Pass
from apass.passes.loop import Loop, module_key

__all__ = ["Repeat"]


class Repeat(Loop[ModT]):
    """Passes that run in rounds until a round does not change the module.

    A round changed nothing if it returns the same module object, or one with the same fingerprint (see `IRAdapter`).
    The module from before that round is then the result. If the module of an earlier round occurs again, the passes
    undo each other and would never converge, which is an error.

    Parameters:
        passes: the passes of a round, in order, by the rules of a Sequential.
        times: the maximum number of rounds. The result of the last round is returned even if it has not converged.
            None means 100 rounds, and it is an error if the last one still changes the module.
        strict: whether this is an error with `times` as well.
        budget: seconds for all rounds. When they are over, the round in progress is cancelled, and the rounds
            before it count. None is no limit.
        opt_level: the level of the Repeat itself as an element of a Sequential.
        name: its name.
        required: the passes that it requires as an element of a Sequential.

    Raises (when it runs):
        PipelineCycleError: if an earlier module occurs again, or the Repeat must converge and does not.
        AdapterError: if a pass changes the module and no adapter supports its type.

    >>> import anyio
    >>> from apass.passes.decorators import module_pass
    >>> halve = module_pass(lambda mod, ctx: {"f": mod["f"] // 2}, opt_level=0, name="Halve")
    >>> anyio.run(Repeat([halve]), {"f": 40}), anyio.run(Repeat([halve], times=3), {"f": 40})
    ({'f': 0}, {'f': 5})

    """

    def __init__(
        self,
        passes: Sequence[Pass[ModT]],
        times: int | None = None,
        strict: bool = False,
        opt_level: int = 0,
        name: str = "Repeat",
        required: Sequence[str] | None = None,
        *,
        budget: float | None = None,
    ) -> None:
        options = {"times": times, "strict": strict or None, "budget": budget}
        super().__init__(passes, options, times, budget, opt_level, name, required)
        self.strict: Final = strict
        """Whether the passes must converge within `times`."""

    def cache_key(self, ctx: PassContext) -> str | None:
        """Return the key of a round with the options.

        Return None if a round has no key, or the number of rounds depends on time.
        """
        inner = None if self.budget is not None else self._round.cache_key(ctx)
        return None if inner is None else f"{self.info.name}{{times={self.times},strict={self.strict}}}{inner}"

    async def transform(self, mod: ModT, ctx: PassContext) -> ModT:
        """Run the passes until nothing changes."""
        deadline = self.deadline()
        # The modules are kept alive: a fingerprint may contain the identity of an object, which could be reused.
        seen: dict[tuple[type, str], tuple[int, ModT]] = {}
        for rounds in range(1, self.max_rounds + 1):
            new = await self.run_round(mod, ctx, deadline, rounds)
            if new is None or new is mod:
                return mod
            if not seen:
                seen[module_key(mod)] = (0, mod)
            first_round, first = seen.setdefault(module_key(new), (rounds, new))
            if first is mod:
                return mod
            if first_round < rounds:
                raise PipelineCycleError(self._describe_cycle(first_round, rounds))
            mod = new
        if self.strict or self.times is None:
            raise PipelineCycleError(
                f"pass {self.info.name!r} did not converge: round {self.max_rounds}, the last one allowed, still "
                f"changed the module; increase `times`, or remove the pass that never converges"
            )
        return mod

    def _describe_cycle(self, first_round: int, rounds: int) -> str:
        first = f"the module of round {first_round}" if first_round else "the input module"
        return (
            f"pass {self.info.name!r} runs in a cycle of length {rounds - first_round}: round {rounds} returned "
            f"{first} again; remove the pass that undoes the work of another"
        )
