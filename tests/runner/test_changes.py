"""`ChangeLog`: which passes changed a module, and which results were stored."""

import pickle
from typing import Any

import pytest

from apass.core.context import PassContext
from apass.core.pass_info import PassInfo
from apass.executors.processes import ProcessExecutor
from apass.passes.base import ModulePass, Pass
from apass.passes.in_place import InPlacePass
from apass.passes.race import Race
from apass.passes.repeat import Repeat
from apass.passes.sequential import Sequential
from apass.runner.changes import CHANGES, ChangeLog
from apass.stores import MemoryStore

pytestmark = pytest.mark.anyio

Mod = dict[str, int]


class Add(ModulePass[Mod]):
    """Adds a number to each value; 0 returns the module itself."""

    cacheable = True

    def __init__(self, name: str, amount: int) -> None:
        self.info = PassInfo(0, name)
        self.amount = amount

    def transform_module(self, mod: Mod, ctx: PassContext) -> Mod:
        return {key: value + self.amount for key, value in mod.items()} if self.amount else mod


class AddInPlace(InPlacePass[Mod]):
    """Adds 1 to each value of a private copy."""

    info = PassInfo(0, "AddInPlace")

    def transform_in_place(self, mod: Mod, ctx: PassContext) -> bool:
        for key in mod:
            mod[key] += 1
        return bool(mod)


class Calls(ModulePass[Mod]):
    """Calls another pass in its own code."""

    info = PassInfo(0, "Calls")

    async def transform_module(self, mod: Mod, ctx: PassContext) -> Mod:
        return await Add("inner", 1)(mod)


async def changes_of(pass_: Pass[Mod], mod: Mod, **options: Any) -> ChangeLog:
    """Return what a log has after a pass."""
    log = ChangeLog()
    CHANGES.set(log)
    async with PassContext(**options):
        await pass_(mod)
    return log


@pytest.mark.parametrize(
    ("pass_", "expected"),
    [
        (Sequential([Add("a", 1), Add("none", 0), Add("b", 1), Add("a", 2)]), {"a": 2, "b": 1}),
        (Sequential([AddInPlace(), AddInPlace()]), {"AddInPlace": 2}),
        (Repeat([Add("a", 1)], times=3), {"a": 3}),
        (Race([Add("loses", 2), Add("wins", 1)], key=lambda mod: mod["f"]), {"wins": 1}),
        (Sequential([Calls(), Add("a", 1)]), {"inner": 1, "a": 1}),
        (Calls(), {"inner": 1}),
        (Add("none", 0), {}),
    ],
)
async def test_log_counts_innermost_changing_passes(pass_: Pass[Mod], expected: dict[str, int]) -> None:
    log = await changes_of(pass_, {"f": 1})
    assert (log.changed, log.stored) == (expected, {})


async def test_donated_module_is_logged_as_changed() -> None:
    log = ChangeLog()
    CHANGES.set(log)
    await Sequential([AddInPlace(), AddInPlace()])({"f": 1}, donate=True)
    assert log.changed == {"AddInPlace": 2}


async def test_log_counts_results_from_the_store() -> None:
    store = MemoryStore()
    pipeline = Sequential([Add("a", 1), Add("none", 0)])
    first = await changes_of(pipeline, {"f": 1}, store=store)
    second = await changes_of(pipeline, {"f": 1}, store=store)
    assert (first.changed, first.stored) == ({"a": 1}, {})
    assert (second.changed, second.stored) == ({"sequential": 1}, {"sequential": 1})


@pytest.mark.process
async def test_log_of_a_worker_reaches_the_caller() -> None:
    log = ChangeLog()
    CHANGES.set(log)
    async with PassContext() as ctx:
        await ProcessExecutor(1).optimize(Sequential([Add("a", 1)]), {"f": 1}, ctx)
    assert log.changed == {"a": 1}


def test_pickled_log_keeps_its_counts() -> None:
    log = pickle.loads(pickle.dumps(ChangeLog({"a": 1}, {"b": 2})))
    assert (log.changed, log.stored) == ({"a": 1}, {"b": 2})
