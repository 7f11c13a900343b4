"""`If`: passes that run on the modules for which a predicate is true."""

from collections.abc import Callable, Sequence
from typing import Final

from apass.concurrency.coroutines import await_once
from apass.core.adapter import ModT
from apass.core.context import PassContext
from apass.core.position import in_branch
from apass.errors import PassDefinitionError, PassResultError
from apass.passes.base import Pass
from apass.passes.combinator import Combinator, check_passes
from apass.passes.sequential import Sequential

__all__ = ["OTHERWISE", "If", "holds"]

OTHERWISE: Final = "otherwise"
"""The name of the second branch of an If in positions; the first branch has none."""


class If(Combinator[ModT]):
    """Passes that run if a predicate is true, and optionally others if it is false.

    In a pipeline's text the predicate is written as the name given to `register_callable`, and the other passes in
    parentheses: `If{predicate=is_large,otherwise=(C,D)}(A,B)`.

    Parameters:
        predicate: a function of the module, `def` or `async def`. Its result is tested for truth.
        passes: the passes, in order, by the rules of a Sequential.
        otherwise: the passes to run if the predicate is false.
        opt_level: the level of the If itself as an element of a Sequential.
        name: its name.
        required: the passes that it requires as an element of a Sequential.

    Raises (when it runs):
        PassResultError: if the predicate returns None, which suggests a missing `return`.

    >>> import anyio
    >>> from apass.passes.decorators import module_pass
    >>> clear = module_pass(lambda mod, ctx: {}, opt_level=0, name="Clear")
    >>> large = If(lambda mod: len(mod) > 1, [clear])
    >>> anyio.run(large, {"f": 1}), anyio.run(large, {"f": 1, "g": 2})
    ({'f': 1}, {})

    """

    def __init__(
        self,
        predicate: Callable[[ModT], object],
        passes: Sequence[Pass[ModT]],
        otherwise: Sequence[Pass[ModT]] | None = None,
        opt_level: int = 0,
        name: str = "If",
        required: Sequence[str] | None = None,
    ) -> None:
        if not callable(predicate):
            raise PassDefinitionError(f"If takes first a predicate, a function of the module, got {predicate!r}")
        self.otherwise: tuple[Pass[ModT], ...] = check_passes("If(otherwise=...)", otherwise or ())
        """The passes to run if the predicate is false."""
        options = {"predicate": predicate, "otherwise": list(self.otherwise)}
        super().__init__(passes, options if self.otherwise else {"predicate": predicate}, opt_level, name, required)
        self.predicate: Final = predicate
        """The function that chooses the passes to run."""
        self._then, self._otherwise = Sequential(self.passes), Sequential(self.otherwise)

    def __block__(self) -> object:
        # The blocks take long to import, and most programs show no pass.
        from apass.passes.tree import pass_tree

        return pass_tree(self, combines=True, otherwise=self.otherwise)

    def branches(self) -> Sequence[Sequence[Pass[ModT]]]:
        """Return the two lists of passes."""
        return (self.passes, self.otherwise)

    async def transform(self, mod: ModT, ctx: PassContext) -> ModT:
        """Call the predicate and run the passes that it selects."""
        if await holds(self, self.predicate, mod):
            return await self._then.transform(mod, ctx)
        with in_branch(OTHERWISE):
            return await self._otherwise.transform(mod, ctx)


async def holds(pass_: Pass[ModT], predicate: Callable[[ModT], object], mod: ModT) -> bool:
    """Return whether the predicate of a pass is true for a module.

    Raises:
        PassResultError: if the predicate returns None.

    """
    result = await await_once(predicate(mod), f"the predicate of pass {pass_.info.name!r}")
    if result is None:
        raise PassResultError(f"the predicate of pass {pass_.info.name!r} returned None; return a bool")
    return bool(result)
