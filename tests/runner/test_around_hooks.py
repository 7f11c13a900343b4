"""`run_around_pass`: hooks in place of the work of a pass."""

from collections.abc import Callable
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, PassInfo
from apass.instruments import PassWork
from apass.stores import MemoryStore

pytestmark = pytest.mark.anyio

Module = dict[str, int]
Hook = Callable[[Any, PassInfo, PassWork], Any]


class Around(apass.PassInstrument):
    """An instrument whose hook is a function."""

    def __init__(self, hook: Hook) -> None:
        self.hook = hook

    def run_around_pass(self, mod: Any, info: PassInfo, work: PassWork) -> Any:
        return self.hook(mod, info, work)


class Add(apass.ModulePass[Module], opt_level=0, name="around.Add", cacheable=True):
    """Add a number to each function."""

    amount: int = 1

    async def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        await checkpoint()
        return {name: func + self.amount for name, func in mod.items()}


async def test_hook_runs_pass() -> None:
    async def hook(mod: Any, info: PassInfo, work: PassWork) -> Any:
        return await work(mod)

    async with PassContext(instruments=[Around(hook)]):
        assert await Add()({"f": 1}) == {"f": 2}


async def test_hook_skips_repeats_and_substitutes() -> None:
    async def repeat(mod: Any, info: PassInfo, work: PassWork) -> Any:
        return await work(await work(mod), Add(10))

    def skip(mod: Any, info: PassInfo, work: PassWork) -> Any:
        return mod

    hooks: list[tuple[Hook, int]] = [(skip, 1), (repeat, 12)]
    for hook, result in hooks:
        async with PassContext(instruments=[Around(hook)]):
            assert await Add()({"f": 1}) == {"f": result}


async def test_first_instrument_is_outermost() -> None:
    log: list[str] = []

    def hook(name: str) -> Hook:
        async def run(mod: Any, info: PassInfo, work: PassWork) -> Any:
            log.append(f"{name} begins")
            result = await work(mod)
            log.append(f"{name} ends")
            return result

        return run

    recorder = apass.testing.RecordingInstrument(log=log, hooks=["run_before_pass", "run_after_pass"])
    async with PassContext(instruments=[Around(hook("a")), Around(hook("b")), recorder]):
        await Add()({"f": 1})
    assert log == [
        "run_before_pass around.Add",
        "a begins",
        "b begins",
        "b ends",
        "a ends",
        "run_after_pass around.Add",
    ]


async def test_result_must_be_module() -> None:
    results: list[Any] = []

    def hook(mod: Any, info: PassInfo, work: PassWork) -> Any:
        return results[-1]

    for result, message in ((None, "run_around_pass of instrument 'Around' returned None"), (3, "no module")):
        results.append(result)
        async with PassContext(instruments=[Around(hook)]):
            with pytest.raises(apass.errors.PassResultError, match=message):
                await Add()({"f": 1})


async def test_error_of_hook_fails_pass() -> None:
    def hook(mod: Any, info: PassInfo, work: PassWork) -> Any:
        raise LookupError("no")

    async with PassContext(instruments=[Around(hook)]):
        with pytest.raises(LookupError) as caught:
            await Add()({"f": 1})
    assert caught.value.__notes__ == ["in pass 'around.Add'"]


async def test_changed_result_is_not_stored_around() -> None:
    async def hook(mod: Any, info: PassInfo, work: PassWork) -> Any:
        result = await work(mod)
        return {"f": 100} if info.name == "around.Add" else result

    @apass.module_pass(opt_level=0, name="around.Outer", cacheable=True)
    async def Outer(mod: Module, ctx: PassContext) -> Module:
        return await Add()(mod)

    store = MemoryStore()
    async with PassContext(store=store, instruments=[Around(hook)]):
        assert await Outer({"f": 1}) == {"f": 100}
    async with PassContext(store=store):
        assert await Outer({"f": 1}) == {"f": 2}


async def test_analyses_are_carried_to_own_result_only() -> None:
    computed: list[int] = []

    @apass.analysis
    async def Total(func: int, ctx: PassContext) -> int:
        computed.append(func)
        return func

    @apass.module_pass(opt_level=0, preserves=[Total])
    async def Rewrite(mod: Module, ctx: PassContext) -> Module:
        return {"f": mod["f"] + 1}

    async def replace(mod: Any, info: PassInfo, work: PassWork) -> Any:
        await work(mod)
        return {"f": 50}

    async def keep(mod: Any, info: PassInfo, work: PassWork) -> Any:
        return await work(mod)

    for hook, expected in ((keep, [1]), (replace, [1, 50])):
        computed.clear()
        async with PassContext(instruments=[Around(hook)]) as ctx:
            await ctx.get(Total, 1)
            result = await Rewrite({"f": 1})
            await ctx.get(Total, result["f"])
        assert computed == expected
