"""Equal calls of cacheable passes that run at the same time share one computation."""

from typing import Any

import anyio
import pytest

import apass
from apass import PassContext
from apass.adapters.mapping import DictAdapter
from apass.stores import MemoryStore
from tests.helpers.calls import Calls

pytestmark = pytest.mark.anyio


class Module(dict[str, Any]):
    """A module that no worker thread reads, so that a test knows when all tasks wait."""


class ModuleAdapter(DictAdapter):
    """Adapter of `Module`."""

    thread_safe = False

    def loads(self, data: bytes) -> Module:
        """Return the module."""
        return Module(super().loads(data))


apass.register_adapter(Module, ModuleAdapter())


class Gate:
    """Lets a body wait until the test opens it, and counts the bodies that started."""

    def __init__(self) -> None:
        self.opened = anyio.Event()
        self.calls = Calls()

    def __fingerprint__(self) -> str:
        """Return a constant: results do not depend on it."""
        return "gate"

    async def enter(self, call: object) -> int:
        """Record a call, and wait; return the number of the call."""
        self.calls.append(call)
        number = len(self.calls)
        await self.opened.wait()
        return number


def module_pass(gate: Gate, *, failing: int = 0) -> apass.Pass[Module]:
    """Return a cacheable module pass whose first calls fail."""

    async def append(mod: Module, ctx: PassContext) -> Module:
        if await gate.enter(mod) <= failing:
            raise ValueError("not yet")
        return Module({**mod, "last": 0})

    declare: Any = apass.module_pass
    result: apass.Pass[Module] = declare(append, opt_level=0, name="Append", cacheable=True)
    return result


def function_pass(gate: Gate, **options: Any) -> apass.Pass[Module]:
    """Return a cacheable function pass whose first call fails if it has `on_error`."""

    async def increment(func: int, mod: Module, ctx: PassContext) -> int:
        if await gate.enter(func) == 1 and options:
            raise ValueError("not yet")
        return func + 1

    declare: Any = apass.function_pass
    result: apass.Pass[Module] = declare(increment, opt_level=0, name="Increment", cacheable=True, **options)
    return result


async def run_equal(pass_: apass.Pass[Module], gate: Gate, count: int = 50) -> list[Any]:
    """Run a pass on equal modules at once, and return the results and errors in order."""
    results: list[Any] = [None] * count

    async def run(index: int) -> None:
        try:
            results[index] = await pass_(Module({"f": 1}))
        except ValueError as error:
            results[index] = error

    async with anyio.create_task_group() as group:
        for index in range(count):
            group.start_soon(run, index)
        await anyio.wait_all_tasks_blocked()
        gate.opened.set()
    return results


async def test_equal_modules_are_computed_once() -> None:
    gate, store = Gate(), MemoryStore()
    async with PassContext(store=store) as ctx:
        results = await run_equal(module_pass(gate), gate)
    assert results == [{"f": 1, "last": 0}] * 50
    # The entries are the result, the list of the module, and the record of the key.
    assert (len(gate.calls), ctx.analyses.counts["pass shared"], (await store.info()).entries) == (1, 49, 3)


async def test_equal_functions_are_computed_once() -> None:
    gate = Gate()
    mod = Module({f"f{index}": index % 2 for index in range(50)})
    async with PassContext(store=MemoryStore()), anyio.create_task_group() as group:
        group.start_soon(function_pass(gate), mod)
        await anyio.wait_all_tasks_blocked()
        gate.opened.set()
    assert sorted(gate.calls) == [0, 1]


async def test_unchanged_module_is_the_callers_own() -> None:
    gate = Gate()

    async def leave(mod: Module, ctx: PassContext) -> Module:
        await gate.enter(mod)
        return mod

    declare: Any = apass.module_pass
    mods = [Module({"f": 1}) for _ in range(5)]
    results: list[Any] = [None] * 5

    async def run(index: int) -> None:
        results[index] = await declare(leave, opt_level=0, cacheable=True)(mods[index])

    async with PassContext(store=MemoryStore()), anyio.create_task_group() as group:
        for index in range(5):
            group.start_soon(run, index)
        await anyio.wait_all_tasks_blocked()
        gate.opened.set()
    assert all(result is mod for result, mod in zip(results, mods, strict=True))
    assert len(gate.calls) == 1


async def test_cancelled_caller_does_not_fail_the_others() -> None:
    gate, results = Gate(), list[Module]()
    pass_ = module_pass(gate)
    first = anyio.CancelScope()

    async def run(scope: anyio.CancelScope) -> None:
        with scope:
            results.append(await pass_(Module({"f": 1})))

    async with PassContext(store=MemoryStore()), anyio.create_task_group() as group:
        group.start_soon(run, first)
        await anyio.wait_all_tasks_blocked()
        for _ in range(5):
            group.start_soon(run, anyio.CancelScope())
        await anyio.wait_all_tasks_blocked()
        first.cancel()
        await anyio.wait_all_tasks_blocked()
        gate.opened.set()
    assert (results, len(gate.calls)) == ([{"f": 1, "last": 0}] * 5, 2)


async def test_error_reaches_all_and_is_not_kept() -> None:
    gate, store = Gate(), MemoryStore()
    pass_ = module_pass(gate, failing=1)
    async with PassContext(store=store):
        results = await run_equal(pass_, gate)
        assert {type(result) for result in results} == {ValueError}
        assert (len(gate.calls), (await store.info()).entries) == (1, 0)
        assert await pass_(Module({"f": 1})) == {"f": 1, "last": 0}


async def test_recovered_result_is_neither_shared_nor_stored() -> None:
    gate, store = Gate(), MemoryStore()
    pass_ = apass.Sequential([function_pass(gate, on_error="keep")])
    async with PassContext(store=store):
        results = await run_equal(pass_, gate, count=5)
    assert sorted(result["f"] for result in results) == [1, 2, 2, 2, 2]
    async with PassContext(store=store):
        assert await pass_(Module({"f": 1})) == {"f": 2}


async def test_pass_may_call_itself_on_its_module() -> None:
    depth = Calls()

    async def repeat(mod: Module, ctx: PassContext) -> Module:
        depth.append(1)
        return await pass_(mod) if len(depth) < 3 else Module({"g": 1})

    declare: Any = apass.module_pass
    pass_: apass.Pass[Module] = declare(repeat, opt_level=0, name="Repeat", cacheable=True)
    with anyio.fail_after(60):
        async with PassContext(store=MemoryStore()):
            assert await pass_(Module({"f": 1})) == {"g": 1}
