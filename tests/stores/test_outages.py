"""Stores that fail during a run: one warning, and the run continues."""

from typing import Any

import anyio
import pytest

import apass
from apass import PassContext
from apass.core.store import StoreInfo
from apass.errors import StoreError, StoreWarning

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


class FailingStore:
    """A store that fails after a number of working calls."""

    def __init__(self, *, working_calls: int) -> None:
        self.remaining = working_calls
        self.calls = 0

    async def get(self, key: str) -> bytes | None:
        """Return None."""
        self.count_call()
        return None

    async def put(self, key: str, value: bytes) -> None:
        """Store nothing."""
        self.count_call()

    def count_call(self) -> None:
        """Count a call, and raise if no working calls remain."""
        self.calls += 1
        self.remaining -= 1
        if self.remaining < 0:
            raise StoreError("the disk is full")

    async def info(self) -> StoreInfo:
        """Return an empty StoreInfo."""
        return StoreInfo(place="nowhere", entries=0, size=0)

    async def clear(self) -> None:
        """Do nothing."""


@apass.analysis(persistent=True)
async def Length(func: str) -> int:
    """Return the length of a function."""
    await anyio.lowlevel.checkpoint()
    return len(func)


@apass.function_pass(opt_level=0, cacheable=True)
async def AppendLength(func: str, mod: Module, ctx: PassContext) -> str:
    """Append its length to a function."""
    return f"{func}{await ctx.get(Length, func)}"


@apass.module_pass(opt_level=0, cacheable=True)
def Add(mod: Module, ctx: PassContext) -> Module:
    """Add a function."""
    return {**mod, "g": "g"}


@pytest.mark.parametrize("working_calls", range(7))
async def test_failing_store_warns_once_and_is_not_used(working_calls: int) -> None:
    store = FailingStore(working_calls=working_calls)
    async with PassContext(store=store):
        with pytest.warns(StoreWarning, match="the disk is full; continuing without the store") as caught:
            result = await apass.Sequential([AppendLength, Add, AppendLength])({"f": "ab", "h": "c"})
    assert (result, len(caught), store.calls) == ({"f": "ab23", "h": "c12", "g": "g1"}, 1, working_calls + 1)
