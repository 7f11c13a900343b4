"""Finds the part of a tool that changes the outputs of a model."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from pkgutil import resolve_name
from typing import Any, Final

import apass
from apass.adapters.onnx import model_from_bytes, model_to_bytes
from apass.debugging.bisect import bisect
from benchmarks.arena.tools import Tool

__all__ = ["find_culprit", "first_culprit"]

MAX_CULPRITS: Final = 4
"""Maximum number of parts that are named."""

IsGood = Callable[[Collection[str]], Awaitable[bool]]
"""Returns whether the outputs are equal if the tool skips these parts."""


async def find_culprit(tool: Tool, model: bytes, is_good: IsGood, is_same: Callable[[bytes], Awaitable[bool]]) -> str:
    """Return the part of the tool that changes the outputs; empty if it is not found.

    Parameters:
        tool: the tool.
        model: the original.
        is_good: runs the tool without some parts.
        is_same: compares the outputs of a model with those of the original.

    """
    if tool.pipeline is not None:
        return await _culprit_of_apass(*tool.pipeline, model, is_same)
    if not tool.parts:
        return ""
    try:
        parts: list[str] = resolve_name(tool.parts)()
    except (ImportError, AttributeError):
        # Another version of the library, which has other parts.
        return ""
    return await first_culprit(parts, is_good)


async def first_culprit(parts: Sequence[str], is_good: IsGood) -> str:
    """Return the parts without which the outputs are equal; empty if there are none.

    It bisects the number of skipped parts, from the first on. The last of them is a culprit. If the outputs are changed
    without it too, the parts before it have another one.
    """
    found: list[str] = []
    good = len(parts)
    if not parts or not await is_good(parts):
        return ""
    while len(found) < MAX_CULPRITS:
        bad = 0
        while good - bad > 1:
            middle = (bad + good) // 2
            if await is_good([*found, *parts[:middle]]):
                good = middle
            else:
                bad = middle
        good -= 1
        found.append(parts[good])
        if not good or await is_good(found):
            return found[0] if len(found) == 1 else f"{' or '.join(found)}, each on its own"
    return f"{' or '.join(found)}, or others, each on its own"


async def _culprit_of_apass(
    pipeline: str, level: int, model: bytes, is_same: Callable[[bytes], Awaitable[bool]]
) -> str:
    """Return the pass that changes the outputs, with its position in the pipeline."""

    async def check(result: Any) -> bool:
        return await is_same(model_to_bytes(result))

    pass_: apass.Pass[Any] = apass.get_pass(pipeline)
    try:
        async with apass.PassContext(opt_level=level):
            return str((await bisect(model_from_bytes(model), pass_, check)).position)
    except apass.ApassError:
        # The change is not repeated in this process.
        return ""
