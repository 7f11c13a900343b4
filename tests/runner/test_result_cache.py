"""Results of passes that are kept in a store."""

import functools
from typing import Any

import anyio.lowlevel
import pytest

import apass
from apass import PassContext
from apass.stores import MemoryStore, SqliteStore

pytestmark = pytest.mark.anyio

Module = dict[str, Any]

apass.register_config_option("caching.scale", int, default=1)
apass.register_config_option("caching.other", int, default=1)


class Work:
    """Counts what it was called for, and makes passes that do so."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def function_pass(self, **promises: Any) -> apass.Pass[Module]:
        """Return a function pass that doubles what is odd."""

        async def double(func: int, mod: Module, ctx: PassContext) -> int:
            self.seen.append(func)
            await anyio.lowlevel.checkpoint()
            return 2 * func if func % 2 else func

        make: Any = apass.function_pass
        made: apass.Pass[Module] = make(double, opt_level=0, name="Double", **promises)
        return made

    def module_pass(self, name: str = "Add", **promises: Any) -> apass.Pass[Module]:
        """Return a module pass that adds a function, once."""

        def add(mod: Module, ctx: PassContext) -> Module:
            self.seen.append(name)
            return mod if name in mod else {**mod, name: len(mod)}

        make: Any = apass.module_pass
        made: apass.Pass[Module] = make(add, opt_level=0, name=name, **promises)
        return made


async def test_a_function_pass_is_kept_function_by_function() -> None:
    work, store = Work(), MemoryStore()
    pass_ = work.function_pass(cacheable=True)
    for mod, wanted in (({"f": 1, "g": 2}, [1, 2]), ({"x": 2, "y": 3, "z": 1}, [3])):
        work.seen.clear()
        async with PassContext(store=store):
            result = await pass_(mod)
        assert result == {name: 2 * func if func % 2 else func for name, func in mod.items()}
        assert sorted(work.seen) == wanted


async def test_what_changed_nothing_gives_the_same_module_back() -> None:
    work, store = Work(), MemoryStore()
    mod = {"f": 2, "Add": 0}
    for _ in range(2):
        async with PassContext(store=store):
            assert await work.function_pass(cacheable=True)(mod) is mod
            assert await work.module_pass(cacheable=True)(mod) is mod
    assert sorted(map(str, work.seen)) == ["0", "2", "Add"]


async def test_version_options_and_config_tell_results_apart() -> None:
    work, store = Work(), MemoryStore()

    async def run(config: dict[str, Any], **promises: Any) -> int:
        before = len(work.seen)
        async with PassContext(store=store, config=config):
            await work.module_pass(cacheable=True, **promises)({"f": 1})
        return len(work.seen) - before

    assert [await run({}), await run({}), await run({}, version="2"), await run({"caching.scale": 2})] == [1, 0, 1, 1]
    keys = ["caching.scale"]
    first = await run({"caching.scale": 7}, config_keys=keys)
    assert (first, await run({"caching.scale": 7, "caching.other": 5}, config_keys=keys)) == (1, 0)
    assert await run({"caching.scale": 3}, config_keys=keys) == 1


async def test_a_pipeline_of_kept_passes_is_one_result_where_nobody_watches() -> None:
    work, store = Work(), MemoryStore()
    pipeline = apass.Sequential(
        [work.module_pass("A", cacheable=True), apass.Repeat([work.function_pass(cacheable=True)], times=2)]
    )
    results: list[Module] = []
    ctx = PassContext()
    for _ in range(2):
        ctx = PassContext(store=store)
        async with ctx:
            results.append(await pipeline({"f": 1}))
    assert (results[0], results[1], ctx.analyses.counts["pass stored"]) == ({"f": 2, "A": 2}, {"f": 2, "A": 2}, 1)
    seen = len(work.seen)

    @apass.pass_instrument
    class Watcher:
        def __init__(self) -> None:
            self.names: list[str] = []

        def run_before_pass(self, mod: Module, info: apass.PassInfo) -> None:
            self.names.append(info.name)

    watcher = Watcher()
    async with PassContext(store=store, instruments=[watcher]) as ctx:
        assert await pipeline({"f": 1}) == results[0]
    assert watcher.names == ["sequential", "A", "Repeat", "Double", "Double"]
    assert len(work.seen) == seen


async def test_a_pipeline_with_a_pass_that_is_not_kept_runs_it() -> None:
    work, store = Work(), MemoryStore()
    pipeline = apass.Sequential([work.module_pass("A", cacheable=True), work.module_pass("B")])
    for _ in range(2):
        async with PassContext(store=store):
            await pipeline({"f": 1})
    assert work.seen == ["A", "B", "B"]


async def test_a_failure_is_not_kept(tmp_path_factory: pytest.TempPathFactory) -> None:
    calls: list[int] = []

    @apass.module_pass(opt_level=0, cacheable=True)
    def Flaky(mod: Module, ctx: PassContext) -> Module:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("not yet")
        return {"g": 1}

    store = SqliteStore(tmp_path_factory.mktemp("store") / "results.db")
    async with PassContext(store=store):
        with pytest.raises(ValueError, match="not yet"):
            await Flaky({"f": 1})
        assert [await Flaky({"f": 1}), await Flaky({"f": 1}), len(calls)] == [{"g": 1}, {"g": 1}, 2]
    store.close()


async def test_persistent_analyses_are_read_back_by_the_next_context() -> None:
    seen: list[str] = []

    @apass.analysis(persistent=True)
    async def Letters(func: str) -> dict[str, int]:
        seen.append(func)
        return {letter: func.count(letter) for letter in sorted(set(func))}

    @apass.analysis(persistent=True)
    def Broken(func: str) -> object:
        return object()

    store = MemoryStore()
    ctx = PassContext()
    for _ in range(2):
        ctx = PassContext(store=store)
        async with ctx:
            assert await ctx.get(Letters, "aab") == {"a": 2, "b": 1}
    assert (seen, ctx.analyses.counts["stored"]) == (["aab"], 1)
    with pytest.raises(apass.AnalysisError, match="the result of Broken cannot be kept in a store"):
        await ctx.get(Broken, "x")


async def test_without_a_store_nothing_is_kept() -> None:
    work = Work()
    async with PassContext():
        for _ in range(2):
            await work.module_pass(cacheable=True)({"f": 1})
    assert work.seen == ["Add", "Add"]
    no_store: Any = "results.db"
    with pytest.raises(TypeError, match="store must be a Store, such as"):
        PassContext(store=no_store)


async def test_the_order_of_functions_is_that_of_the_module() -> None:
    store, results = MemoryStore(), list[list[str]]()
    for mod in ({"f": 1, "g": 2}, {"g": 2, "f": 1}):
        async with PassContext(store=store):
            results.append(list(await Work().module_pass(cacheable=True)(mod)))
    assert results == [["f", "g", "Add"], ["g", "f", "Add"]]


class AddTo(apass.FunctionPass[Module, int]):
    """Adds a number to each function."""

    info = apass.PassInfo(opt_level=0, name="AddTo")
    cacheable = True

    def __init__(self, number: int) -> None:
        self.number = number

    def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        """Add it."""
        return func + self.number


class Sum:
    """Adds numbers to each function."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        """Add them."""
        return func + sum(self.numbers)


async def test_what_a_pass_was_made_with_tells_results_apart() -> None:
    make: Any = apass.function_pass
    store = MemoryStore()
    sum_of = make(Sum, opt_level=0, cacheable=True)
    for pass_, wanted in ((AddTo(1), 2), (AddTo(2), 3), (sum_of(1, 2), 4), (sum_of(3, 4), 8)):
        for _ in range(2):
            async with PassContext(store=store):
                assert await pass_({"f": 1}) == {"f": wanted}


async def test_passes_of_one_name_in_two_places_are_two() -> None:
    store, results = MemoryStore(), list[Module]()

    def negate(func: int, mod: Module, ctx: PassContext) -> int:
        return -func

    make: Any = apass.function_pass
    for pass_ in (make(negate, opt_level=0, name="AddTo", cacheable=True), AddTo(5)):
        async with PassContext(store=store):
            results.append(await pass_({"f": 1}))
    assert results == [{"f": -1}, {"f": 6}]


async def test_results_are_kept_of_bodies_that_run_elsewhere_too() -> None:
    seen: list[int] = []

    def add(func: int, mod: Module, ctx: PassContext) -> int:
        seen.append(func)
        return func + 1

    make: Any = apass.function_pass
    store = MemoryStore()
    for _ in range(2):
        async with PassContext(store=store, executor="thread"):
            assert await make(add, opt_level=0, cacheable=True)({"f": 1, "g": 5}) == {"f": 2, "g": 6}
    assert sorted(seen) == [1, 5]


async def test_the_level_tells_results_apart_as_a_body_may_go_by_it() -> None:
    @apass.module_pass(opt_level=0, cacheable=True)
    def Level(mod: Module, ctx: PassContext) -> Module:
        return {"level": ctx.opt_level}

    store = MemoryStore()
    for level in (1, 3):
        async with PassContext(opt_level=level, store=store):
            assert await Level({"f": 1}) == {"level": level}


async def test_a_pipeline_that_runs_nothing_keeps_nothing() -> None:
    work, store = Work(), MemoryStore()
    async with PassContext(store=store, disabled_pass=["Double"]):
        assert await apass.Sequential([work.function_pass(cacheable=True)])({"f": 1}) == {"f": 1}
        assert await apass.Sequential[Module]([])({"f": 1}) == {"f": 1}
    assert (await store.info()).entries == 0


async def test_the_rounds_of_a_repeat_tell_results_apart() -> None:
    @apass.module_pass(opt_level=0, cacheable=True)
    def Count(mod: Module, ctx: PassContext) -> Module:
        return {"f": mod["f"] + 1}

    async with PassContext(store=MemoryStore()):
        for times in (2, 3):
            assert await apass.Repeat([Count], times=times)({"f": 0}) == {"f": times}
        with pytest.raises(apass.PipelineCycleError, match="did not settle: round 3"):
            await apass.Repeat([Count], times=3, strict=True)({"f": 0})


async def test_a_result_that_was_read_back_is_dropped_with_what_it_was_made_from() -> None:
    @apass.analysis
    async def Length(func: str) -> int:
        return len(func)

    @apass.analysis(persistent=True)
    async def Parity(func: str, ctx: PassContext) -> int:
        return await ctx.get(Length, func) % 2

    async def grow(func: str, mod: Module, ctx: PassContext) -> str:
        await ctx.get(Parity, func)
        return func + "x"

    make: Any = apass.function_pass
    store = MemoryStore()
    for preserves, wanted in (({Parity}, 0), ({Parity}, 0), ({Parity, Length}, 1)):
        ctx = PassContext(store=store)
        async with ctx:
            await make(grow, opt_level=0, preserves=preserves)({"f": "ab"})
        assert ctx.analyses.counts["preserved"] == wanted


def test_persistent_analyses_without_a_name_need_one() -> None:
    make: Any = apass.analysis(persistent=True)
    unnamed: list[Any] = [lambda func: 1, functools.partial(len)]  # pyright: ignore[reportUnknownLambdaType]
    for function in unnamed:
        with pytest.raises(apass.PassDefinitionError, match=r"a persistent analysis needs a name: give .* by name="):
            make(function)
    one, other = (apass.analysis(name=name, persistent=True)(functools.partial(len)) for name in ("One", "Other"))
    assert one.key != other.key
