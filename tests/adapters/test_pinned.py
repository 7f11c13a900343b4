"""An IR whose modules may not be worked on in another thread: nothing of apass does."""

import threading
from pathlib import Path
from typing import Any

import pytest

from apass import PassContext, Sequential, function_pass, module_pass, optimize_all, register_adapter
from apass.adapters.mapping import DictAdapter
from apass.executors import ProcessExecutor
from apass.instruments import DumpTree, HonestChangeInstrument, ReproducerInstrument, VerifyInstrument
from apass.stores import MemoryStore

pytestmark = pytest.mark.anyio

PROCESSES = ProcessExecutor(workers=1)


class Pinned(dict[str, Any]):
    """Functions by name."""


class PinnedAdapter(DictAdapter):
    """An adapter that notes in which threads it is used."""

    thread_safe = False

    def __init__(self) -> None:
        self.threads: dict[str, set[int]] = {}

    def note(self, what: str) -> None:
        """Note the thread."""
        self.threads.setdefault(what, set()).add(threading.get_ident())

    def fingerprint(self, x: Any) -> str:
        """Note it, and do as for any dict."""
        self.note("fingerprint")
        return super().fingerprint(x)

    def exact_fingerprint(self, x: Any) -> str:
        """Note it, and do as for any dict."""
        self.note("exact_fingerprint")
        return super().exact_fingerprint(x)

    def verify(self, mod: Any) -> None:
        """Note it, and do as for any dict."""
        self.note("verify")
        super().verify(mod)

    def to_text(self, x: Any) -> str:
        """Note it, and do as for any dict."""
        self.note("to_text")
        return super().to_text(x)

    def dumps(self, mod: Any) -> bytes:
        """Note it, and do as for any dict."""
        self.note("dumps")
        return super().dumps(mod)

    def loads(self, data: bytes) -> Pinned:
        """Note it, and give a module of its class."""
        self.note("loads")
        return Pinned(super().loads(data))

    def __reduce__(self) -> str:
        return "ADAPTER"


ADAPTER = PinnedAdapter()
register_adapter(Pinned, ADAPTER)


@module_pass(opt_level=0, cacheable=True)
def Add(mod: Pinned, ctx: PassContext) -> Pinned:
    """Add a function."""
    return Pinned({**mod, "g": 2})


@function_pass(opt_level=0)
def Grow(func: int, mod: Pinned, ctx: PassContext) -> int:
    """Add one."""
    return func + 1


@module_pass(opt_level=0)
def Fail(mod: Pinned, ctx: PassContext) -> Pinned:
    """Fail."""
    raise ValueError("no")


def used() -> set[str]:
    """Return which methods were used in this thread; none may have been in another."""
    threads = dict(ADAPTER.threads)
    ADAPTER.threads.clear()
    assert set[int]().union(*threads.values()) == {threading.get_ident()}, threads
    return set(threads)


async def test_results_are_kept_and_read_in_the_thread_of_the_loop() -> None:
    store = MemoryStore()
    for stored in (0, 1):
        async with PassContext(store=store) as ctx:
            made = await Add(Pinned(f=1))
        assert (made, type(made), ctx.analyses.counts["pass stored"]) == ({"f": 1, "g": 2}, Pinned, stored)
    assert used() == {"exact_fingerprint", "dumps", "loads"}


async def test_so_are_those_of_a_journal(tmp_path: Path) -> None:
    for _ in range(2):
        assert await optimize_all({"m": Pinned(f=1)}, Add, journal=tmp_path / "journal") == {"m": {"f": 1, "g": 2}}
    assert used() == {"fingerprint", "dumps", "loads"}


async def test_modules_go_to_other_processes_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apass.executors.remote.BIG", 1)
    async with PassContext(executor=PROCESSES):
        assert await Grow(Pinned(f=1)) == {"f": 2}
        assert await optimize_all({"m": Pinned(f=1)}, Add, executor=PROCESSES) == {"m": {"f": 1, "g": 2}}
    assert used() >= {"dumps", "loads"}


async def test_instruments_look_at_them_there(tmp_path: Path) -> None:
    watching = [
        VerifyInstrument(),
        HonestChangeInstrument(),
        DumpTree(tmp_path / "tree"),
        ReproducerInstrument(tmp_path / "reproducers"),
    ]
    with pytest.raises(ValueError, match="no"):
        async with PassContext(instruments=watching):
            await Sequential([Add, Grow, Fail])(Pinned(f=1))
    assert used() >= {"verify", "fingerprint", "to_text", "dumps"}
