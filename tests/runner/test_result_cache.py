"""Results of passes in a store."""

import functools
from typing import Any

import anyio.lowlevel
import pytest

import apass
from apass import PassContext, relay
from apass.adapters.mapping import DictAdapter
from apass.core.adapter import adapter_for
from apass.relay import IRModule, transform
from apass.relay.integration.adapter import ADAPTER
from apass.stores import MemoryStore, SqliteStore
from tests.helpers.calls import Calls

pytestmark = pytest.mark.anyio

Module = dict[str, Any]

apass.register_config_option("caching.scale", int, default=1)
apass.register_config_option("caching.other", int, default=1)


class Work:
    """Makes passes that record the functions and modules they run on."""

    def __init__(self) -> None:
        self.calls = Calls()

    def __fingerprint__(self) -> str:
        """Return a constant: results do not depend on what is recorded."""
        return "work"

    def function_pass(self, **options: Any) -> apass.Pass[Module]:
        """Return a function pass that doubles odd functions."""

        async def double(func: int, mod: Module, ctx: PassContext) -> int:
            self.calls.append(func)
            await anyio.lowlevel.checkpoint()
            return 2 * func if func % 2 else func

        declare: Any = apass.function_pass
        result: apass.Pass[Module] = declare(double, opt_level=0, name="Double", **options)
        return result

    def module_pass(self, name: str = "Add", **options: Any) -> apass.Pass[Module]:
        """Return a module pass that adds function `name` if it is missing."""

        def add(mod: Module, ctx: PassContext) -> Module:
            self.calls.append(name)
            return mod if name in mod else {**mod, name: len(mod)}

        declare: Any = apass.module_pass
        result: apass.Pass[Module] = declare(add, opt_level=0, name=name, **options)
        return result


async def test_function_pass_is_cached_per_function() -> None:
    work, store = Work(), MemoryStore()
    pass_ = work.function_pass(cacheable=True)
    for mod, expected in (({"f": 1, "g": 2}, [1, 2]), ({"x": 2, "y": 3, "z": 1}, [3])):
        work.calls.clear()
        async with PassContext(store=store):
            result = await pass_(mod)
        assert result == {name: 2 * func if func % 2 else func for name, func in mod.items()}
        assert sorted(work.calls) == expected


async def test_cached_unchanged_module_is_same_object() -> None:
    work, store = Work(), MemoryStore()
    mod = {"f": 2, "Add": 0}
    for _ in range(2):
        async with PassContext(store=store):
            assert await work.function_pass(cacheable=True)(mod) is mod
            assert await work.module_pass(cacheable=True)(mod) is mod
    assert sorted(map(str, work.calls)) == ["0", "2", "Add"]


async def test_results_depend_on_version_options_and_config() -> None:
    work, store = Work(), MemoryStore()

    async def run(config: dict[str, Any], **options: Any) -> int:
        before = len(work.calls)
        async with PassContext(store=store, config=config):
            await work.module_pass(cacheable=True, **options)({"f": 1})
        return len(work.calls) - before

    assert [await run({}), await run({}), await run({}, version="2"), await run({"caching.scale": 2})] == [1, 0, 1, 1]
    keys = ["caching.scale"]
    first = await run({"caching.scale": 7}, config_keys=keys)
    assert (first, await run({"caching.scale": 7, "caching.other": 5}, config_keys=keys)) == (1, 0)
    assert await run({"caching.scale": 3}, config_keys=keys) == 1


async def test_cached_pipeline_is_one_entry_without_instruments() -> None:
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
    calls = len(work.calls)

    @apass.pass_instrument
    class NameRecorder:
        def __init__(self) -> None:
            self.names: list[str] = []

        def run_before_pass(self, mod: Module, info: apass.PassInfo) -> None:
            self.names.append(info.name)

    recorder = NameRecorder()
    async with PassContext(store=store, instruments=[recorder]) as ctx:
        assert await pipeline({"f": 1}) == results[0]
    assert recorder.names == ["sequential", "A", "Repeat", "Double", "Double"]
    assert len(work.calls) == calls


async def test_pipeline_runs_its_uncached_pass() -> None:
    work, store = Work(), MemoryStore()
    pipeline = apass.Sequential([work.module_pass("A", cacheable=True), work.module_pass("B")])
    for _ in range(2):
        async with PassContext(store=store):
            await pipeline({"f": 1})
    assert work.calls == ["A", "B", "B"]


async def test_error_is_not_cached(tmp_path_factory: pytest.TempPathFactory) -> None:
    calls = Calls()

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


async def test_next_context_reads_persistent_analyses() -> None:
    computed = Calls()

    @apass.analysis(persistent=True)
    async def Letters(func: str) -> dict[str, int]:
        computed.append(func)
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
    assert (computed, ctx.analyses.counts["stored"]) == (["aab"], 1)
    with pytest.raises(apass.errors.AnalysisError, match="the result of Broken cannot be written to a store"):
        await ctx.get(Broken, "x")


async def test_nothing_is_cached_without_store() -> None:
    work = Work()
    async with PassContext():
        for _ in range(2):
            await work.module_pass(cacheable=True)({"f": 1})
    assert work.calls == ["Add", "Add"]
    not_a_store: Any = "results.db"
    with pytest.raises(TypeError, match="store must be a Store, such as"):
        PassContext(store=not_a_store)


async def test_cached_result_keeps_order_of_functions() -> None:
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
        """Return the function plus the number."""
        return func + self.number


class Sum:
    """Adds numbers to each function."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        """Return the function plus the sum of the numbers."""
        return func + sum(self.numbers)


async def test_results_depend_on_constructor_arguments() -> None:
    declare: Any = apass.function_pass
    store = MemoryStore()
    sum_of = declare(Sum, opt_level=0, cacheable=True)
    for pass_, expected in ((AddTo(1), 2), (AddTo(2), 3), (sum_of(1, 2), 4), (sum_of(3, 4), 8)):
        for _ in range(2):
            async with PassContext(store=store):
                assert await pass_({"f": 1}) == {"f": expected}


async def test_passes_of_one_name_differ_by_module() -> None:
    store, results = MemoryStore(), list[Module]()

    def negate(func: int, mod: Module, ctx: PassContext) -> int:
        return -func

    declare: Any = apass.function_pass
    for pass_ in (declare(negate, opt_level=0, name="AddTo", cacheable=True), AddTo(5)):
        async with PassContext(store=store):
            results.append(await pass_({"f": 1}))
    assert results == [{"f": -1}, {"f": 6}]


async def test_bodies_in_executor_are_cached() -> None:
    calls = Calls()

    def add(func: int, mod: Module, ctx: PassContext) -> int:
        calls.append(func)
        return func + 1

    declare: Any = apass.function_pass
    store = MemoryStore()
    for _ in range(2):
        async with PassContext(store=store, executor="thread"):
            assert await declare(add, opt_level=0, cacheable=True)({"f": 1, "g": 5}) == {"f": 2, "g": 6}
    assert sorted(calls) == [1, 5]


async def test_results_depend_on_opt_level() -> None:
    @apass.module_pass(opt_level=0, cacheable=True)
    def Level(mod: Module, ctx: PassContext) -> Module:
        return {"level": ctx.opt_level}

    store = MemoryStore()
    for level in (1, 3):
        async with PassContext(opt_level=level, store=store):
            assert await Level({"f": 1}) == {"level": level}


async def test_pipeline_without_executed_pass_stores_nothing() -> None:
    work, store = Work(), MemoryStore()
    async with PassContext(store=store, disabled_pass=["Double"]):
        assert await apass.Sequential([work.function_pass(cacheable=True)])({"f": 1}) == {"f": 1}
        assert await apass.Sequential[Module]([])({"f": 1}) == {"f": 1}
    assert (await store.info()).entries == 0


async def test_results_depend_on_rounds_of_repeat() -> None:
    @apass.module_pass(opt_level=0, cacheable=True)
    def Count(mod: Module, ctx: PassContext) -> Module:
        return {"f": mod["f"] + 1}

    async with PassContext(store=MemoryStore()):
        for times in (2, 3):
            assert await apass.Repeat([Count], times=times)({"f": 0}) == {"f": times}
        with pytest.raises(apass.errors.PipelineCycleError, match="did not converge: round 3"):
            await apass.Repeat([Count], times=3, strict=True)({"f": 0})


async def test_stored_analysis_is_dropped_with_its_dependency() -> None:
    @apass.analysis
    async def Length(func: str) -> int:
        return len(func)

    @apass.analysis(persistent=True)
    async def Parity(func: str, ctx: PassContext) -> int:
        return await ctx.get(Length, func) % 2

    async def grow(func: str, mod: Module, ctx: PassContext) -> str:
        await ctx.get(Parity, func)
        return func + "x"

    declare: Any = apass.function_pass
    store = MemoryStore()
    for preserves, expected in (({Parity}, 0), ({Parity}, 0), ({Parity, Length}, 1)):
        ctx = PassContext(store=store)
        async with ctx:
            await declare(grow, opt_level=0, preserves=preserves)({"f": "ab"})
        assert ctx.analyses.counts["preserved"] == expected


def test_persistent_analysis_without_name_raises() -> None:
    declare: Any = apass.analysis(persistent=True)
    unnamed: list[Any] = [lambda func: 1, functools.partial(len)]  # pyright: ignore[reportUnknownLambdaType]
    for function in unnamed:
        with pytest.raises(
            apass.errors.PassDefinitionError, match=r"a persistent analysis needs a name; pass name=... for"
        ):
            declare(function)
    first, second = (apass.analysis(name=name, persistent=True)(functools.partial(len)) for name in ("One", "Other"))
    assert first.key != second.key


LISTS = """
type List[A] {
  Cons(A, List[A]),
  Nil,
}
def @h(%x: int32) -> int32 { add(%x, 1) }
def @main(%x: int32) -> int32 { add(@h(%x), 2) }
def @one(%x: int32) -> List[int32] { Cons(add(%x, 1), Nil) }
"""


def sums(first: str, second: str) -> IRModule:
    """Return a module with one function of two parameters with these names."""
    return relay.parse(f"def @main(%{first}: float32, %{second}: float32) {{ add(%{first}, %{second}) }}")


async def test_parameters_keep_names_of_the_module() -> None:
    store = MemoryStore()
    for names in (["x", "y"], ["data", "weight"]):
        async with PassContext(store=store):
            result = await transform.ToANormalForm()(sums(*names))
        assert [param.name_hint for param in result["main"].params] == names


async def test_cached_result_has_inferred_types() -> None:
    typed = await transform.InferType()(sums("x", "y"))
    store = MemoryStore()
    for mod in (typed, sums("x", "y"), sums("x", "y")):
        async with PassContext(store=store):
            assert (await transform.InferType()(mod))["main"].checked_type_ is not None


async def mark(func: relay.Function, mod: IRModule, ctx: PassContext) -> relay.Function:
    """Return the function with the attribute `marked`."""
    ctx.statistic("marked")
    return relay.Function(func.params, func.body, func.ret_type, func.type_params, {"marked": 1})


async def test_cached_function_uses_definitions_of_its_module() -> None:
    declare: Any = apass.function_pass
    pass_: apass.Pass[IRModule] = declare(mark, opt_level=0, name="Mark", cacheable=True)
    store, texts = (
        MemoryStore(),
        (LISTS, LISTS.replace("Nil,\n", "Nil,\n  More(A),\n"), LISTS.replace("%x, 1", "%x, 7")),
    )
    for text in texts:
        expected = await pass_(relay.parse(text))
        async with PassContext(store=store):
            result = await pass_(relay.parse(text))
        ADAPTER.verify(result)
        assert all(func.body.checked_type_ is not None for _, func in ADAPTER.functions(result))
        assert ADAPTER.equal(result, expected)
        assert result.astext() == expected.astext()


async def test_module_is_fingerprinted_once_per_run(monkeypatch: pytest.MonkeyPatch) -> None:
    work, modules = Work(), list[object]()
    empty: Module = {}
    adapter: Any = adapter_for(empty)
    exact = adapter.exact_fingerprint

    def record(mod: object) -> object:
        modules.append(mod)
        return exact(mod)

    monkeypatch.setattr(DictAdapter, "exact_fingerprint", staticmethod(record))
    passes = [work.module_pass(name, cacheable=True) for name in ("f", "g", "f", "g")]
    async with PassContext(store=MemoryStore()):
        mod = {"f": 1}
        assert await apass.Sequential(passes)(mod) == {"f": 1, "g": 1}
        assert modules == [{"f": 1}, {"f": 1, "g": 1}]
        # Between two runs, the user may change a module.
        mod["h"] = 5
        assert await apass.Sequential(passes)(mod) == {"f": 1, "h": 5, "g": 2}
