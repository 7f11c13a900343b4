"""IRs that are not thread-safe, and small modules, stay in the thread of the loop."""

import threading
from pathlib import Path

import pytest

from apass import PassContext, Sequential, module_pass, optimize_all
from apass.executors import ProcessExecutor
from apass.instruments import DumpTree, HonestChangeInstrument, ReproducerInstrument, VerifyInstrument
from apass.stores import MemoryStore
from tests.helpers.pinned import ADAPTER, SIZED, Add, Grow, Pinned, Sized

pytestmark = pytest.mark.anyio

PROCESSES = ProcessExecutor(workers=1)


@module_pass(opt_level=0)
def Fail(mod: Pinned, ctx: PassContext) -> Pinned:
    """Fail."""
    raise ValueError("no")


def called_methods() -> set[str]:
    """Return the called methods, and check that all calls were in this thread."""
    threads = dict(ADAPTER.threads)
    ADAPTER.threads.clear()
    assert set[int]().union(*threads.values()) == {threading.get_ident()}, threads
    return set(threads)


async def test_store_uses_adapter_in_loop_thread() -> None:
    store = MemoryStore()
    for stored in (0, 1):
        async with PassContext(store=store) as ctx:
            result = await Add(Pinned(f=1))
        assert (result, type(result), ctx.analyses.counts["pass stored"]) == ({"f": 1, "g": 2}, Pinned, stored)
    assert called_methods() == {"exact_fingerprint", "dumps", "loads"}


@pytest.mark.parametrize("functions", [1, 2])
async def test_small_modules_are_stored_in_loop_thread(tmp_path: Path, functions: int) -> None:
    SIZED.threads.clear()
    mod = Sized({f"f{index}": index for index in range(functions)})
    async with PassContext(store=MemoryStore()):
        result = (await optimize_all({"m": mod}, Add, journal=tmp_path / "journal"))["m"]
    in_loop = {name for name, threads in SIZED.threads.items() if threads == {threading.get_ident()}}
    assert set(SIZED.threads) == {"fingerprint", "exact_fingerprint", "dumps"}
    # The result has one function more than the module.
    expected = {1: {"fingerprint", "exact_fingerprint", "dumps"}, 2: {"fingerprint", "exact_fingerprint"}}
    assert (len(result), in_loop) == (functions + 1, expected[functions])


async def test_journal_uses_adapter_in_loop_thread(tmp_path: Path) -> None:
    for _ in range(2):
        assert await optimize_all({"m": Pinned(f=1)}, Add, journal=tmp_path / "journal") == {"m": {"f": 1, "g": 2}}
    assert called_methods() == {"fingerprint", "dumps", "loads"}


@pytest.mark.process
async def test_process_executor_uses_adapter_in_loop_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apass.executors.remote.BIG", 1)
    async with PassContext(executor=PROCESSES):
        assert await Grow(Pinned(f=1)) == {"f": 2}
        assert await optimize_all({"m": Pinned(f=1)}, Add, executor=PROCESSES) == {"m": {"f": 1, "g": 2}}
    assert called_methods() >= {"dumps", "loads"}


async def test_instruments_use_adapter_in_loop_thread(tmp_path: Path) -> None:
    instruments = [
        VerifyInstrument(),
        HonestChangeInstrument(),
        DumpTree(tmp_path / "tree"),
        ReproducerInstrument(tmp_path / "reproducers"),
    ]
    with pytest.raises(ValueError, match="no"):
        async with PassContext(instruments=instruments):
            await Sequential([Add, Grow, Fail])(Pinned(f=1))
    assert called_methods() >= {"verify", "fingerprint", "to_text", "dumps"}
