"""Stores that fail while passes work: a warning, and no work is lost for their sake."""

from typing import Any

import anyio
import pytest

import apass
from apass import PassContext
from apass.core.store import StoreInfo
from apass.errors import StoreError, StoreWarning

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


class Unsound:
    """A store that fails from some call on."""

    def __init__(self, *, sound: int) -> None:
        self.left = sound
        self.calls = 0

    async def get(self, key: str) -> bytes | None:
        """Find nothing, for a while."""
        self.fail_late()
        return None

    async def put(self, key: str, value: bytes) -> None:
        """Keep nothing, for a while."""
        self.fail_late()

    def fail_late(self) -> None:
        """Raise once there are no sound calls left."""
        self.calls += 1
        self.left -= 1
        if self.left < 0:
            raise StoreError("the disk is full")

    async def info(self) -> StoreInfo:
        """Say that there is nothing."""
        return StoreInfo(place="nowhere", entries=0, size=0)

    async def clear(self) -> None:
        """Forget nothing."""


@apass.analysis(persistent=True)
async def Length(func: str) -> int:
    """Return how long a function is."""
    await anyio.lowlevel.checkpoint()
    return len(func)


@apass.function_pass(opt_level=0, cacheable=True)
async def Ask(func: str, mod: Module, ctx: PassContext) -> str:
    """Add to a function how long it is."""
    return f"{func}{await ctx.get(Length, func)}"


@apass.module_pass(opt_level=0, cacheable=True)
def Add(mod: Module, ctx: PassContext) -> Module:
    """Add a function."""
    return {**mod, "g": "g"}


@pytest.mark.parametrize("sound", range(7))
async def test_a_store_that_fails_costs_a_warning_and_is_left_alone(sound: int) -> None:
    store = Unsound(sound=sound)
    async with PassContext(store=store):
        with pytest.warns(StoreWarning, match="the disk is full; the work goes on without it") as caught:
            result = await apass.Sequential([Ask, Add, Ask])({"f": "ab", "h": "c"})
    assert (result, len(caught), store.calls) == ({"f": "ab23", "h": "c12", "g": "g1"}, 1, sound + 1)
