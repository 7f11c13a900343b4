"""The list of the results that a store has for one module."""

from pathlib import Path
from typing import Any

import pytest

import apass
from apass import PassContext
from apass.core import store as stores
from apass.core.store import FaultTolerantStore
from apass.errors import StoreWarning
from apass.stores import MemoryStore, SqliteStore
from tests.helpers.calls import Calls

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


class RecordingStore(MemoryStore):
    """Records the keys that are read, and the values that are written."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []
        self.writes: list[tuple[str, bytes]] = []

    async def get(self, key: str) -> bytes | None:
        """Record a key."""
        self.reads.append(key)
        return await super().get(key)

    async def put(self, key: str, value: bytes) -> None:
        """Record a value."""
        self.writes.append((key, value))
        await super().put(key, value)


def adding(name: str, calls: Calls) -> apass.Pass[Module]:
    """Return a cacheable pass that adds the function `name` if it is missing."""

    class Add(apass.ModulePass[Module]):
        info = apass.PassInfo(0, f"Add{name}")
        cacheable = True

        def __fingerprint__(self) -> str:
            """Return the name: results do not depend on the calls."""
            return name

        def _options(self) -> object:
            return name

        def _code(self) -> object:
            return "adding"

        def transform_module(self, mod: Module, ctx: PassContext) -> Module:
            calls.append(name)
            return mod if name in mod else {**mod, name: 1}

    return Add()


def pipeline(names: str, calls: Calls) -> apass.Pass[Module]:
    """Return a pipeline of these passes."""
    return apass.Sequential([adding(name, calls) for name in names])


async def run(store: stores.Store, pass_: apass.Pass[Module], mod: Module) -> Module:
    """Return the result in a new context."""
    async with PassContext(store=store):
        return await pass_(mod)


async def test_unchanged_module_is_written_once() -> None:
    store, calls, mod = RecordingStore(), Calls(), {"a": 1, "b": 1, "c": 1}
    assert await run(store, pipeline("abc", calls), mod) is mod
    # Beside the key of each pass, which is recorded once.
    assert len([key for key, _ in store.writes if not key.startswith("keys/")]) == 1
    assert len({key for key in store.reads if not key.startswith("keys/")}) == 1
    store.reads.clear()
    assert await run(store, pipeline("abc", calls), mod) is mod
    assert (sorted(calls), len(store.reads)) == (["a", "b", "c"], 1)


async def test_result_of_last_pass_is_stored_once() -> None:
    store, calls = RecordingStore(), Calls()
    expected = {"a": 1, "b": 1}
    assert await run(store, pipeline("ab", calls), {"a": 1}) == expected
    assert sum(b"new:" in value for _, value in store.writes) == 1
    # The whole pipeline, its last pass, and a longer pipeline find the result.
    assert await run(store, pipeline("ab", calls), {"a": 1}) == expected
    assert await run(store, adding("b", calls), {"a": 1}) == expected
    assert sorted(calls) == ["a", "b"]
    assert await run(store, pipeline("abc", calls), {"a": 1}) == {**expected, "c": 1}
    assert sorted(calls) == ["a", "b", "c"]


async def test_lost_result_of_last_pass_is_computed_again() -> None:
    store, calls = RecordingStore(), Calls()
    await run(store, pipeline("ab", calls), {"a": 1})
    kept = {key: value for key, value in store.writes if b"new:" not in value}
    await store.clear()
    for key, value in kept.items():
        await store.put(key, value)
    assert await run(store, pipeline("ab", calls), {"a": 1}) == {"a": 1, "b": 1}
    assert sorted(calls) == ["a", "b", "b"]


async def test_results_before_an_error_are_stored() -> None:
    store, calls = MemoryStore(), Calls()

    class Fail(apass.ModulePass[Module]):
        info = apass.PassInfo(0, "Fail")
        cacheable = True

        def transform_module(self, mod: Module, ctx: PassContext) -> Module:
            raise ValueError("not now")

    for _ in range(2):
        with pytest.raises(ValueError, match="not now"):
            await run(store, apass.Sequential([adding("a", calls), adding("b", calls), Fail()]), {"a": 1})
    assert sorted(calls) == ["a", "b"]


async def test_lists_of_two_processes_are_joined(tmp_path: Path) -> None:
    opened = [SqliteStore(tmp_path / "results.db") for _ in range(2)]
    first, second = (FaultTolerantStore(store).module_results("fingerprint") for store in opened)
    assert (await first.find("a"), await second.find("a")) == (None, None)
    first.add("a", changes=False)
    second.add("b", changes=True)
    await first.write()
    await second.write()
    third = FaultTolerantStore(opened[0]).module_results("fingerprint")
    assert [await third.find(name) for name in "abc"] == [False, True, None]
    for store in opened:
        store.close()


async def test_list_drops_its_oldest_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MAX_LISTED", 2)
    memory = MemoryStore()
    results = FaultTolerantStore(memory).module_results("fingerprint")
    for name in "abcb":
        results.add(name, changes=False)
        await results.write()
    read = FaultTolerantStore(memory).module_results("fingerprint")
    assert [await read.find(name) for name in "abc"] == [None, False, False]


@pytest.mark.parametrize("damage", [b"", b"[1]", b"{", b"\xff"])
async def test_odd_list_counts_as_missing(damage: bytes) -> None:
    store = FaultTolerantStore(MemoryStore())
    results = store.module_results("fingerprint")
    results.add("a", changes=False)
    await results.write()
    await store.put("module/1/fingerprint", damage)
    del results
    with pytest.warns(StoreWarning, match="cannot be read"):
        assert await store.module_results("fingerprint").find("a") is None
