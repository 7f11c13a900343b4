"""Bodies, predicates, keys and hooks that return a coroutine."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import If, PassContext, Race
from apass.errors import PassResultError
from apass.stores import MemoryStore
from tests.helpers.recording import function_pass_of, module_pass_of

pytestmark = pytest.mark.anyio


async def helper(value: Any) -> Any:
    await checkpoint()
    return value


async def module_body(mod: Any, ctx: Any) -> Any:
    return helper(mod)


async def function_body(func: Any, mod: Any, ctx: Any) -> Any:
    return helper(func)


def plain_body(func: Any, mod: Any, ctx: Any) -> Any:
    return function_body(func, mod, ctx)


async def missing(*args: Any) -> Any:
    return helper(True)


def identity(mod: Any, ctx: Any) -> Any:
    return mod


class SkippingInstrument(apass.PassInstrument):
    """Instrument with a `should_run` that returns a coroutine."""

    should_run: Any = missing


MESSAGES: dict[str, tuple[Callable[[], apass.Pass[Any]], str]] = {
    "module": (lambda: module_pass_of(module_body), "pass 'P' returned the coroutine 'helper', which is not a module"),
    "function": (
        lambda: function_pass_of(function_body),
        "pass 'P', for function 'f', returned the coroutine 'helper', which is not a function",
    ),
    "delegating": (
        lambda: function_pass_of(plain_body),
        "pass 'P', for function 'f', returned the coroutine 'helper', which is not a function",
    ),
    "timeout": (
        lambda: function_pass_of(function_body, timeout=60),
        "pass 'P' returned the coroutine 'helper', which is not a result",
    ),
    "cached function": (
        lambda: function_pass_of(function_body, cacheable=True),
        "pass 'P', for function 'f', returned the coroutine 'helper', which is not a function",
    ),
    "cached module": (
        lambda: function_pass_of(function_body, cacheable="module"),
        "pass 'P', for function 'f', returned the coroutine 'helper', which is not a function",
    ),
    "predicate": (
        lambda: If(missing, [module_pass_of(identity)]),
        "the predicate of pass 'If' returned the coroutine 'helper', which is not a result",
    ),
    "key": (
        lambda: Race([module_pass_of(identity)], key=missing),
        "the key of pass 'Race' returned the coroutine 'helper', which is not a result",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
async def test_missing_await_is_reported(case: str) -> None:
    make, message = MESSAGES[case]
    mod = {"f": 1, "g": 2}
    async with PassContext(store=MemoryStore()):
        with pytest.raises(PassResultError) as caught:
            await make()(mod)
    # The `g` of the modules comes first if its body ends first.
    assert str(caught.value).replace("'g'", "'f'") == f"{message}; forgot await?"


async def test_missing_await_of_should_run_is_reported() -> None:
    async with PassContext(instruments=[SkippingInstrument()]):
        with pytest.raises(PassResultError, match=r"should_run of instrument .* forgot await\?"):
            await module_pass_of(identity)({})


async def test_missing_await_of_analysis_is_reported() -> None:
    @apass.analysis
    async def size(func: Any) -> Any:
        return helper(func)

    with pytest.raises(PassResultError, match=r"the analysis .*size returned the coroutine 'helper'.* forgot await\?"):
        await PassContext().get(size, 1)


async def test_missing_await_is_recovered_by_on_error() -> None:
    async with PassContext() as ctx:
        assert await function_pass_of(function_body, on_error="keep")({"f": 1}) == {"f": 1}
    assert "forgot await?" in ctx.diag_ctx.diagnostics[0].message


async def test_other_awaitable_is_reported_with_its_type() -> None:
    async def body(mod: Any, ctx: Any) -> Any:
        return _Later()

    with pytest.raises(PassResultError, match=r"returned the awaitable <.*_Later object.*>, which is not a module"):
        await module_pass_of(body)({})


async def test_module_of_plain_body_is_awaited_once() -> None:
    with pytest.raises(PassResultError, match="the coroutine 'helper'"):
        await module_pass_of(lambda mod, ctx: module_body(mod, ctx))({})
    assert await module_pass_of(lambda mod, ctx: helper(mod))({"f": 1}) == {"f": 1}
    assert await module_pass_of(lambda mod, ctx: _Later())({"f": 1}) == {"f": 0}


class _Later:
    """An awaitable that is not a coroutine."""

    def __await__(self) -> Any:
        yield from anyio.lowlevel.checkpoint().__await__()
        return {"f": 0}
