"""Cache keys of passes and analyses: what distinguishes two passes of one name."""

import functools
from typing import Any

import pytest

import apass
from apass import PassContext
from apass.errors import StoreWarning
from apass.stores import MemoryStore

pytestmark = pytest.mark.anyio

Module = dict[str, Any]
declare_function: Any = functools.partial(apass.function_pass, opt_level=0, name="Add", cacheable=True)
declare_module: Any = functools.partial(apass.module_pass, opt_level=0, name="Add", cacheable=True)


def with_closure(number: int) -> Any:
    """Return a function pass with a closure."""

    def add(func: int, mod: Module, ctx: PassContext) -> int:
        return func + number

    return declare_function(add)


def with_default(number: int) -> Any:
    """Return a function pass with a default."""

    def add(func: int, mod: Module, ctx: PassContext, number: int = number) -> int:
        return func + number

    return declare_function(add)


def with_keyword_default(number: int) -> Any:
    """Return an async function pass with a keyword-only default."""

    async def add(func: int, mod: Module, ctx: PassContext, *, number: int = number) -> int:
        return func + number

    return declare_function(add)


def with_partial(number: int) -> Any:
    """Return a function pass of a partial function."""

    def add(number: int, func: int, mod: Module, ctx: PassContext) -> int:
        return func + number

    return declare_function(functools.partial(add, number))


def with_method(number: int) -> Any:
    """Return a function pass of a bound method."""

    class Adder:
        def __init__(self, number: int) -> None:
            self.number = number

        def add(self, func: int, mod: Module, ctx: PassContext) -> int:
            return func + self.number

    return declare_function(Adder(number).add)


def with_inner_function(number: int) -> Any:
    """Return a function pass that calls a function of its closure."""

    def one(value: int) -> int:
        return value + 1

    def two(value: int) -> int:
        return value + 2

    step = one if number == 1 else two

    def add(func: int, mod: Module, ctx: PassContext) -> Any:
        return step(func)

    return declare_function(add)


def with_local_class(number: int) -> Any:
    """Return a function pass made from a class with a closure."""

    class Add:
        def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
            return func + number

    return declare_function(Add)()


def with_subclass(number: int) -> Any:
    """Return an instance of a local class of passes."""

    class Add(apass.FunctionPass[Module, int]):
        info = apass.PassInfo(opt_level=0, name="Add")
        cacheable = True

        def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
            return func + number

    return Add()


def with_inner_pass(number: int) -> Any:
    """Return a module pass that calls another pass."""
    inner = with_closure(number)

    async def add(mod: Module, ctx: PassContext) -> Any:
        return await inner(mod)

    return declare_module(add)


def with_module_closure(number: int) -> Any:
    """Return a module pass with a closure."""

    def add(mod: Module, ctx: PassContext) -> Module:
        return {name: func + number for name, func in mod.items()}

    return declare_module(add)


def with_analysis(number: int) -> Any:
    """Return a pass that requires an analysis of this version."""

    def measure(func: int) -> int:
        return number

    def add(func: int, mod: Module, ctx: PassContext) -> int:
        measured: int = ctx.got(analysis, func)
        return func + measured

    analysis = apass.analysis(name="Measure", version=str(number))(measure)
    return declare_function(add, required=[analysis])


MAKERS = [
    with_closure,
    with_default,
    with_keyword_default,
    with_partial,
    with_method,
    with_inner_function,
    with_local_class,
    with_subclass,
    with_inner_pass,
    with_module_closure,
    with_analysis,
]


@pytest.mark.parametrize("make", MAKERS)
async def test_similar_passes_do_not_share_results(make: Any) -> None:
    store = MemoryStore()
    for number in (1, 2):
        async with PassContext(store=store):
            assert await make(number)({"f": 1}) == {"f": 1 + number}
    entries = (await store.info()).entries
    for number in (1, 2):
        async with PassContext(store=store) as ctx:
            assert await make(number)({"f": 1}) == {"f": 1 + number}
        assert ctx.analyses.counts["pass stored"] == 1
    assert (await store.info()).entries == entries


async def test_version_of_a_required_analysis_counts() -> None:
    def leave(mod: Module, ctx: PassContext) -> Module:
        return mod

    store, versions = MemoryStore(), list[str]()

    for version in ("1", "2", "2"):
        analysis = apass.analysis(name="Length", version=version)(len)
        async with PassContext(store=store) as ctx:
            await declare_module(leave, required=[analysis])({"f": 1})
        versions += [version] * (1 - ctx.analyses.counts["pass stored"])
    assert versions == ["1", "2"]


async def test_analyses_of_one_name_do_not_share_results() -> None:
    def plus(number: int) -> Any:
        def measure(func: str) -> int:
            return len(func) + number

        return apass.analysis(persistent=True)(measure)

    store, stored = MemoryStore(), list[int]()
    for number in (1, 2, 1):
        async with PassContext(store=store) as ctx:
            assert await ctx.get(plus(number), "abc") == 3 + number
        stored.append(ctx.analyses.counts["stored"])
    assert stored == [0, 0, 1]


async def test_object_without_fingerprint_is_not_cached() -> None:
    client = object()

    def use(func: int, mod: Module, ctx: PassContext) -> int:
        return func + (client is not None)

    @apass.analysis(persistent=True)
    def Ask(func: int) -> int:
        return func + (client is not None)

    store = MemoryStore()
    reason = "not stored: they depend on an object of type builtins.object, which has no fingerprint; define __finger"
    async with PassContext(store=store) as ctx:
        for pass_ in (declare_function(use), apass.Sequential([declare_function(use)])):
            with pytest.warns(StoreWarning, match=f"results of pass Add of .* are {reason}"):
                assert await pass_({"f": 1}) == {"f": 2}
        with pytest.warns(StoreWarning, match=f"results of the analysis Ask are {reason}"):
            assert await ctx.get(Ask, 1) == 2
    assert (await store.info()).entries == 0
