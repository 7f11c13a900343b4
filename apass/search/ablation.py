"""`ablate`: leaves out passes of a pipeline, to see which of them matter."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from apass.search.prefixes import Elements

__all__ = ["Effect", "ablate"]

MOST: Final = 200
"""Passes of a pipeline that are left out at most."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a pass of the best pipeline contributes."""

    element: str
    """The text of the pass."""
    value: float | None
    """The first value without the pass; None if that pipeline fails."""
    gain: float | None
    """How much less the value is with the pass; None if the pipeline without it fails."""


async def ablate(
    elements: Elements,
    value: float,
    evaluate: Callable[[Elements], Awaitable[float | None]],
    contains: Callable[[Elements], bool],
) -> tuple[Elements, Sequence[Effect]]:
    """Return a pipeline without useless passes, and what the others contribute.

    The passes are left out one by one, the last one first. If the value is not greater without a pass, and the space
    allows it, the pass stays out.

    Parameters:
        elements: the texts of the passes.
        value: the first value of the pipeline.
        evaluate: returns the first value of other passes; None if they fail.
        contains: returns whether the space has other passes.

    """
    effects: list[Effect] = []
    for index in reversed(range(len(elements[-MOST:]))):
        without = (*elements[:index], *elements[index + 1 :])
        found = await evaluate(without)
        if found is not None and found <= value and contains(without):
            elements, value = without, found
        else:
            effects.append(Effect(elements[index], found, None if found is None else found - value))
    return elements, tuple(reversed(effects))
