"""TVM's names: calls in a context, instrument points, parts of passes."""

from typing import Any

import pytest

import apass
from apass import PassContext, PassInfo, relay

pytestmark = pytest.mark.anyio

Module = dict[str, int]
INFO = PassInfo(opt_level=0, name="Tune")


class Log:
    """Records its hooks, and skips all passes unless `allows`."""

    def __init__(self, allows: bool = True) -> None:
        self.allows = allows
        self.calls: list[str] = []

    async def enter_pass_ctx(self) -> None:
        self.calls.append("enter")

    def exit_pass_ctx(self) -> None:
        self.calls.append("exit")

    async def should_run(self, mod: Module, info: PassInfo) -> bool:
        self.calls.append("should")
        return self.allows

    async def run_before_pass(self, mod: Module, info: PassInfo) -> None:
        self.calls.append(f"before {info.name}")

    def run_after_pass(self, mod: Module, info: PassInfo) -> None:
        self.calls.append(f"after {info.name}")


@apass.module_pass(opt_level=0)
def Level(mod: Module, ctx: PassContext) -> Module:
    return {"level": ctx.opt_level}


async def test_pass_is_called_in_a_context() -> None:
    log = Log()
    ctx = PassContext(opt_level=3, instruments=[log])
    assert await Level({}, ctx) == await apass.Sequential([Level])({}, ctx) == {"level": 3}
    assert [log.calls.count(name) for name in ("enter", "exit", "before Level")] == [2, 2, 2]
    call: Any = Level
    with pytest.raises(TypeError, match="ctx must be"):
        await call({}, 3)


async def test_pass_called_in_current_context_does_not_enter() -> None:
    log = Log()

    @apass.module_pass(opt_level=0)
    async def Outer(mod: Module, ctx: PassContext) -> Module:
        return await Level(mod, ctx)

    await Outer({}, PassContext(instruments=[log]))
    assert (log.calls.count("enter"), log.calls.count("after Level")) == (1, 1)


async def test_instrument_points_call_hooks() -> None:
    log, strict = Log(), Log(allows=False)
    ctx = PassContext(instruments=[log])
    await ctx.instrument_enter_pass_ctx()
    assert await ctx.instrument_before_pass({}, INFO)
    await ctx.instrument_after_pass({}, INFO)
    await ctx.instrument_exit_pass_ctx()
    assert log.calls == ["enter", "should", "before Tune", "after Tune", "exit"]
    # All instruments are asked; then none sees the start.
    log.calls.clear()
    assert not await PassContext(instruments=[strict, log]).instrument_before_pass({}, INFO)
    assert (strict.calls, log.calls) == (["should"], ["should"])
    # A required pass is not asked about.
    assert await PassContext(required_pass=["Tune"], instruments=[strict]).instrument_before_pass({}, INFO)
    assert strict.calls == ["should", "before Tune"]


async def test_failed_instrument_point_clears_instruments() -> None:
    class Fails(Log):
        def exit_pass_ctx(self) -> None:
            raise ValueError("no")

    ctx = PassContext(instruments=[Fails()])
    with pytest.raises(ValueError, match="no"):
        await ctx.instrument_exit_pass_ctx()
    assert ctx.instruments == ()


async def test_pass_func_is_the_work_of_a_pass() -> None:
    def work(func: int, mod: Module, ctx: PassContext) -> int:
        return func + 1

    class Double(apass.ModulePass[Module], opt_level=0):
        def transform_module(self, mod: Module, ctx: PassContext) -> Module:
            return {name: 2 * func for name, func in mod.items()}

    ctx = PassContext()
    assert apass.function_pass(work, opt_level=0).pass_func is work
    assert Double().pass_func({"f": 2}, ctx) == {"f": 4}
    decorated: Any = Level
    assert decorated.pass_func({}, ctx) == {"level": 2}


async def test_skip_function_follows_the_adapter() -> None:
    x = relay.var("x", shape=(2,))
    mod = relay.IRModule({"main": relay.Function([x], x)})
    mod["skipped"] = relay.Function([x], x).with_attr("SkipOptimization", 1)
    pass_ = relay.transform.FoldConstant()
    assert [pass_.skip_function(mod[name], mod) for name in ("main", "skipped")] == [False, True]


async def test_pass_enabled_follows_current_context() -> None:
    named = apass.get_pass("relay.Default")
    sequential = apass.Sequential([Level, named])
    assert sequential.pass_enabled(Level.info)
    high = PassInfo(opt_level=3, name="High")
    assert not sequential.pass_enabled(high)
    with pytest.warns(apass.errors.UnmatchedPassNameWarning):
        async with PassContext(required_pass=["High"], disabled_pass=["Level", "relay.Default"]):
            enabled = [sequential.pass_enabled(info) for info in (high, Level.info, named.info)]
    assert enabled == [True, False, False]


async def test_instance_of_decorated_instrument_is_an_instrument() -> None:
    @apass.pass_instrument
    class Counter:
        def run_before_pass(self, mod: Module, info: PassInfo) -> None: ...

    class Plain:
        def run_before_pass(self, mod: Module, info: PassInfo) -> None: ...

    assert isinstance(Counter(), apass.PassInstrument)
    assert not isinstance(Plain(), apass.PassInstrument)
