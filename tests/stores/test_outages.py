"""Stores that fail or hold odd values: a warning, and the run continues."""

import sqlite3
import warnings
from typing import Any

import anyio
import pytest

import apass
from apass import PassContext
from apass.core.store import Store, StoreInfo, seal
from apass.errors import StoreError, StoreWarning

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


class FailingStore:
    """A store that fails after a number of working calls."""

    def __init__(self, *, working_calls: int, error: Exception | None = None) -> None:
        self.error = error or StoreError("the disk is full")
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
            raise self.error

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


@pytest.mark.parametrize("working_calls", [0, 1])
@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("refused"),
        TimeoutError(),
        sqlite3.OperationalError("locked"),
        EOFError(),
        KeyError("reply"),
        ExceptionGroup("", [ConnectionError("refused")]),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_error_of_a_store_fails_no_pass(error: Exception, working_calls: int) -> None:
    store = FailingStore(working_calls=working_calls, error=error)
    name = type(error).__name__
    async with PassContext(store=store):
        with pytest.warns(StoreWarning, match=f"FailingStore failed: {name}: .*; continuing without") as caught:
            assert await apass.Sequential([AppendLength, Add])({"f": "ab"}) == {"f": "ab2", "g": "g"}
    assert len(caught) == 1


@pytest.mark.parametrize("error", [TypeError("odd"), NameError("odd"), ExceptionGroup("", [AttributeError("odd")])])
async def test_mistake_in_a_store_is_raised(error: Exception) -> None:
    async with PassContext(store=FailingStore(working_calls=0, error=error)):
        with pytest.raises(type(error)):
            await Add({"f": "ab"})


async def test_long_error_of_a_store_is_cut() -> None:
    async with PassContext(store=FailingStore(working_calls=0, error=OSError("x" * 10**6))):
        with pytest.warns(StoreWarning) as caught:
            await Add({"f": "ab"})
    assert len(str(caught[0].message)) < 500


class DictStore:
    """A store that returns whatever is in a dict, which a test changes."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    async def get(self, key: str) -> Any:
        """Return the value."""
        return self.values.get(key)

    async def put(self, key: str, value: bytes) -> None:
        """Store the value."""
        self.values[key] = value

    async def info(self) -> StoreInfo:
        """Return the number of values."""
        return StoreInfo(place="a dict", entries=len(self.values), size=0)

    async def clear(self) -> None:
        """Remove all values."""
        self.values.clear()


async def run_all(store: Store) -> None:
    """Run two cacheable passes and an analysis, and check the results."""
    async with PassContext(store=store) as ctx:
        assert await ctx.get(Length, "abc") == 3
        assert await AppendLength({"f": "ab", "h": "c"}) == {"f": "ab2", "h": "c1"}
        assert await Add({"f": "ab"}) == {"f": "ab", "g": "g"}


VALUES: dict[str, Any] = {"empty": b"", "text": "text", "number": 7, "list": [b""]}
"""Values that a store must not return, and the context does not expect."""
SEALED = {
    "not readable": b"\xff\x00",
    "no header": b"new:",
    "long header": b"new:\xff\xff\xff\xff{}",
    "header of another form": b"new:\x00\x00\x00\x01{",
    "number as header": b"new:\x00\x00\x00\x0177",
    "deep header": b"[" * 100_000,
    "dependencies of another form": b"7\n3",
}
"""Values with a correct seal that apass did not write."""
CHANGED = ("cut", "longer", "flipped", "unsealed", "of another key")
"""Changes of a value, by `odd_value`."""


def odd_value(odd: str, key: str, value: bytes) -> Any:
    """Return a value that apass did not put under the key."""
    if odd in VALUES:
        return VALUES[odd]
    if odd in SEALED:
        return seal(key, SEALED[odd])
    changed = {
        "cut": value[:-1],
        "longer": value + b" ",
        "flipped": value[:-1] + bytes([value[-1] ^ 1]),
        "unsealed": value[16:],
        "of another key": seal(f"{key} ", value[16:]),
    }
    return changed[odd]


@pytest.mark.parametrize("odd", [*VALUES, *SEALED, *CHANGED])
async def test_odd_value_is_computed_again_and_overwritten(odd: str) -> None:
    store = DictStore()
    await run_all(store)
    # Recorded keys are read for explanations only.
    good = {key: value for key, value in store.values.items() if not key.startswith("keys/")}
    store.values = {key: odd_value(odd, key, value) for key, value in good.items()}
    with pytest.warns(StoreWarning, match="(is damaged|cannot be read .*); it is computed again$") as caught:
        await run_all(store)
    assert (len(caught), store.values) == (len(good), good)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await run_all(store)
