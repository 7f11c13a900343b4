"""`open` of passes: when it is opened, for which passes, and how it is closed."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import FunctionPass, ModulePass, PassContext, Sequential
from apass.errors import PassContextError, PassDefinitionError
from tests.helpers.combinators import Module, error_of, failing

LOG: list[str] = []
"""What happened, in order; emptied before each test."""


@pytest.fixture(autouse=True)
def empty_log() -> None:
    LOG.clear()


class Client:
    """Something that a pass opens."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_open = True

    async def double(self, value: int) -> int:
        assert self.is_open
        await checkpoint()
        assert self.is_open
        return 2 * value


class Double(FunctionPass[Module, int], opt_level=1):
    """Doubles by a client."""

    label: str = "a"

    @asynccontextmanager
    async def open(self, ctx: PassContext) -> AsyncGenerator[Client]:
        await checkpoint()
        LOG.append(f"open {self.label}")
        client = Client(self.label)
        try:
            yield client
        finally:
            await checkpoint()
            client.is_open = False
            LOG.append(f"close {self.label}")

    async def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        client = ctx.opened(self.open)
        LOG.append(f"{client.name} {func}")
        return await client.double(func)


@pytest.mark.anyio
async def test_pass_is_opened_once_for_all_functions() -> None:
    assert await Double()({"f": 1, "g": 2}) == {"f": 2, "g": 4}
    assert LOG == ["open a", "a 1", "a 2", "close a"]


@pytest.mark.anyio
async def test_pass_is_opened_once_for_all_modules() -> None:
    pipeline = Sequential([Double(), Double("b"), apass.Repeat([Double("c")], times=2)])
    result = await apass.optimize_all({"m": {"f": 1}, "n": {"f": 2}}, pipeline)
    assert result == {"m": {"f": 16}, "n": {"f": 32}}
    assert LOG[:3] == ["open a", "open b", "open c"]
    assert LOG[-3:] == ["close c", "close b", "close a"]
    assert sorted(LOG[3:-3]) == ["a 1", "a 2", "b 2", "b 4", "c 16", "c 4", "c 8", "c 8"]


@pytest.mark.anyio
async def test_disabled_passes_are_not_opened() -> None:
    inner = Sequential([Double("inner")], opt_level=3)
    branches = apass.If(lambda mod: True, [Double("then")], [Double("otherwise")])
    async with PassContext(disabled_pass=["Double"]):
        await Sequential([Double(), inner])({"f": 1})
        assert LOG == []
    await Sequential([inner, branches])({"f": 1})
    assert LOG == ["open then", "open otherwise", "then 1", "close otherwise", "close then"]


@pytest.mark.anyio
async def test_same_pass_twice_shares_what_it_opens() -> None:
    double = Double()
    assert await Sequential([double, Sequential([double])])({"f": 1}) == {"f": 4}
    assert LOG == ["open a", "a 1", "a 2", "close a"]


@pytest.mark.anyio
async def test_required_passes_are_opened_around_each_execution() -> None:
    apass.register_pass("Double", Double)
    try:

        async def call(mod: Module, ctx: PassContext) -> Module:
            return await Double("called")(mod)

        calling = apass.module_pass(call, opt_level=0, name="Calling", required=["Double"])
        assert await Sequential([calling])({"f": 1}) == {"f": 4}
        assert LOG == ["open a", "a 1", "close a", "open called", "called 2", "close called"]
    finally:
        apass.unregister_pass("Double")


@asynccontextmanager
async def open_client(ctx: PassContext) -> AsyncGenerator[Client]:
    LOG.append("open")
    yield Client("function")
    LOG.append("close")


@pytest.mark.anyio
async def test_decorated_functions_take_an_opener() -> None:
    @apass.function_pass(opt_level=0, open=open_client)
    async def First(func: int, mod: Module, ctx: PassContext) -> int:
        return await ctx.opened(open_client).double(func)

    @apass.module_pass(opt_level=0, open=open_client)
    async def Second(mod: Module, ctx: PassContext) -> Module:
        return {"f": await ctx.opened(open_client).double(mod["f"])}

    assert await First({"f": 1}) == {"f": 2}
    assert await Sequential([First, Second])({"f": 1}) == {"f": 4}
    assert LOG == ["open", "close"] * 2


@pytest.mark.anyio
async def test_decorated_class_may_define_open() -> None:
    @apass.module_pass(opt_level=0)
    class Tune:
        def __init__(self, amount: int) -> None:
            self.amount = amount

        async def open(self, ctx: PassContext) -> AsyncIterator[int]:
            LOG.append("open")
            yield self.amount
            LOG.append("close")

        def transform_module(self, mod: Module, ctx: PassContext) -> Module:
            return {"f": mod["f"] + ctx.opened(self.open)}

    passes: list[Any] = [Tune(2), Tune(3)]
    assert await Sequential[Module](passes)({"f": 1}) == {"f": 6}
    assert LOG == ["open", "open", "close", "close"]


@pytest.mark.anyio
async def test_error_of_a_body_closes_the_pass() -> None:
    error = await error_of(Sequential([Double(), failing("Fail", ValueError("wrong"))]), {"f": 1})
    assert (type(error), str(error)) == (ValueError, "wrong")
    assert LOG == ["open a", "a 1", "close a"]


class Scripted(ModulePass[Module], opt_level=0):
    """Fails where its option requires."""

    fails: str = ""
    pauses: float = 0

    @asynccontextmanager
    async def open(self, ctx: PassContext) -> AsyncGenerator[None]:
        if self.fails == "open":
            raise KeyError("open")
        async with anyio.create_task_group() as group:
            if self.fails == "background":
                group.start_soon(self.fail)
            yield
            await anyio.sleep(self.pauses)
            group.cancel_scope.cancel()
        LOG.append("closed")
        if self.fails == "close":
            raise KeyError("close")

    async def fail(self) -> None:
        await anyio.sleep(1)
        raise KeyError("background")

    async def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        ctx.opened(self.open)
        if self.fails == "background":
            await anyio.sleep_forever()
        return mod


@pytest.mark.anyio
async def test_error_of_open_closes_the_others() -> None:
    error = await error_of(Sequential([Double(), Scripted("open")]), {"f": 1})
    assert (type(error), error.args, error.__notes__) == (KeyError, ("open",), ["in `open` of pass 'Scripted'"])
    assert LOG == ["open a", "close a"]


@pytest.mark.anyio
async def test_error_of_closing_is_raised_or_noted() -> None:
    error = await error_of(Sequential([Double(), Scripted("close")]), {"f": 1})
    assert (type(error), error.args, error.__notes__) == (KeyError, ("close",), ["in `open` of pass 'Scripted'"])
    assert LOG == ["open a", "a 1", "closed", "close a"]
    error = await error_of(Sequential([Scripted("close"), failing("Fail", ValueError("wrong"))]), {"f": 1})
    assert type(error) is ValueError
    assert error.__notes__ == ["in pass 'sequential > Fail'", "and then KeyError was raised: 'close'"]


@pytest.mark.anyio
async def test_failing_manager_cancels_the_run(idle_clock: None) -> None:
    error = await error_of(Sequential([Double(), Scripted("background")]), {"f": 1})
    # The task group of the pass makes a group of it.
    assert repr(error).startswith("ExceptionGroup(")
    assert "KeyError('background')" in repr(error)
    assert LOG == ["open a", "a 1", "close a"]
    with pytest.raises(BaseExceptionGroup):
        await apass.optimize_all([{"f": 1}], Scripted("background"))


@pytest.mark.anyio
async def test_cancelled_run_is_closed_after_its_bodies(idle_clock: None) -> None:
    class Slow(Double):
        async def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
            try:
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    LOG.append(f"cleaned {await ctx.opened(self.open).double(func)}")
            return func

    with anyio.move_on_after(1) as scope:
        await Slow()({"f": 1})
    assert scope.cancelled_caught
    assert LOG == ["open a", "cleaned 2", "close a"]
    with anyio.move_on_after(1) as scope:
        await apass.optimize_all([{"f": 3}], Slow())
    assert scope.cancelled_caught
    assert LOG[3:] == ["open a", "cleaned 6", "close a"]


def test_native_cancellation_closes_the_pass() -> None:
    @apass.module_pass(opt_level=0)
    async def Wait(mod: Module, ctx: PassContext) -> Module:
        LOG.append("wait")
        waits.set()
        await anyio.sleep_forever()
        return mod

    waits = asyncio.Event()

    async def main() -> bool:
        task = asyncio.ensure_future(Sequential([Double(), Wait])({"f": 1}))
        await waits.wait()
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(main())
    assert LOG == ["open a", "a 1", "wait", "close a"]


@pytest.mark.anyio
async def test_closing_after_cancellation_has_a_grace(idle_clock: None) -> None:
    @apass.module_pass(opt_level=0)
    async def Wait(mod: Module, ctx: PassContext) -> Module:
        await anyio.sleep_forever()
        return mod

    async with PassContext(exit_grace=5):
        with anyio.move_on_after(1), pytest.raises(apass.errors.PassTimeoutError) as caught:
            await Sequential([Scripted(pauses=100), Wait])({"f": 1})
        assert str(caught.value) == "closing pass 'Scripted' did not end within 5 s of a cancellation"
        assert anyio.current_effective_deadline() == float("inf")
        await Sequential([Scripted(pauses=100)])({"f": 1})


@pytest.mark.anyio
async def test_deadline_limits_opening(idle_clock: None) -> None:
    @asynccontextmanager
    async def never(ctx: PassContext) -> AsyncGenerator[None]:
        await anyio.sleep_forever()
        yield

    @apass.module_pass(opt_level=0, open=never)
    def Stuck(mod: Module, ctx: PassContext) -> Module:
        return mod

    async with PassContext(deadline=10):
        error = await error_of(Sequential([Double(), Stuck]), {"f": 1})
    assert isinstance(error, apass.errors.BudgetExceededError)
    assert str(error).startswith("opening pass 'Stuck' ran out of the budget of 10 s")
    assert LOG == ["open a", "close a"]


def _takes_no_context(self: object) -> None:
    """Do nothing, with the parameters of no `open`."""


@pytest.mark.anyio
async def test_opener_of_another_kind_is_an_error() -> None:
    def wrong(ctx: PassContext) -> Any:
        return 3

    @apass.module_pass(opt_level=0, open=wrong)
    def Wrong(mod: Module, ctx: PassContext) -> Module:
        return mod

    error = await error_of(Wrong, {"f": 1})
    assert isinstance(error, PassDefinitionError)
    assert str(error) == (
        "open of pass 'Wrong' returned 3, expected an async context manager; write `async def open(self, ctx)` with "
        "one `yield`"
    )
    not_callable: Any = 3
    with pytest.raises(PassDefinitionError, match=r"open must be a function \(ctx\) with one `yield`, got 3"):
        apass.module_pass(opt_level=0, open=not_callable)
    with pytest.raises(PassDefinitionError, match=r"open of class Bad takes \(self\), expected \(self, ctx\)"):
        type("Bad", (ModulePass,), {"open": _takes_no_context})


@pytest.mark.anyio
async def test_opener_outside_of_its_pass_is_an_error() -> None:
    with pytest.raises(PassContextError, match=r"is not open; call ctx\.opened"):
        PassContext.current().opened(open_client)


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["early", "late"])
async def test_manager_that_ends_too_early_is_an_error(name: str, idle_clock: None) -> None:
    @asynccontextmanager
    async def brief(ctx: PassContext) -> AsyncGenerator[None]:
        with anyio.move_on_after(1):
            yield

    async def wait(mod: Module, ctx: PassContext) -> Module:
        await anyio.sleep(0.5 if name == "early" else 2)
        return mod

    pass_ = apass.module_pass(wait, opt_level=0, name="Wait", open=brief)
    if name == "early":
        assert await pass_({"f": 1}) == {"f": 1}
        return
    error = await error_of(pass_, {"f": 1})
    assert str(error) == "open of pass 'Wait' ended before the run; wait in `yield`"
