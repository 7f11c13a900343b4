"""Cached passes: analyses, time limits, errors, and the parts of cache keys."""

from importlib.metadata import PackageNotFoundError
from typing import Any

import anyio
import pytest

import apass
import apass.runner.cache_keys
from apass import PassContext, function_pass, module_pass, relay
from apass.adapters.mapping import DictAdapter
from apass.runner.cache_keys import own_version
from apass.stores import MemoryStore
from tests.helpers.calls import Calls

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


async def test_cached_pass_preserves_analysis_results() -> None:
    computed: list[Module] = []

    @apass.analysis
    def Size(mod: Module) -> int:
        computed.append(mod)
        return len(mod)

    @module_pass(opt_level=0, cacheable=True, preserves={Size})
    def Rename(mod: Module, ctx: PassContext) -> Module:
        return {f"{name}_": func for name, func in mod.items()}

    store, mod = MemoryStore(), {"f": 1, "g": 2}
    expected = {"computed": 1, "preserved": 1, "hit": 1}
    for counts in (expected, {**expected, "pass stored": 1}):
        async with PassContext(store=store) as ctx:
            await ctx.get(Size, mod)
            assert await ctx.get(Size, await Rename(mod)) == 2
        assert ctx.analyses.counts == counts
    assert computed == [mod, mod]


async def test_cached_functions_are_counted() -> None:
    @function_pass(opt_level=0, cacheable=True)
    async def Add(func: int, mod: Module, ctx: PassContext) -> int:
        return func + 1

    store = MemoryStore()
    for counts in ({}, {"pass stored": 2}):
        async with PassContext(store=store) as ctx:
            assert await Add({"f": 1, "g": 2}) == {"f": 2, "g": 3}
        assert ctx.analyses.counts == counts


async def test_unchanged_function_is_same_object() -> None:
    @function_pass(opt_level=0, cacheable=True)
    async def Leave(func: list[int], mod: Module, ctx: PassContext) -> list[int]:
        return func

    store, mod = MemoryStore(), {"f": [1, 2]}
    for _ in range(2):
        async with PassContext(store=store):
            assert await Leave(mod) is mod


async def test_pass_returning_none_raises_and_is_not_cached() -> None:
    no_result: Any = None

    @module_pass(opt_level=0, cacheable=True)
    def Forgetful(mod: Module, ctx: PassContext) -> Module:
        result: Module = no_result
        return result

    @function_pass(opt_level=0, cacheable=True)
    def ForgetfulBody(func: int, mod: Module, ctx: PassContext) -> int:
        result: int = no_result
        return result

    store = MemoryStore()
    async with PassContext(store=store):
        for pass_ in (Forgetful, ForgetfulBody):
            with pytest.raises(apass.errors.PassResultError, match=r"Forgetful(Body)?' returned None"):
                await pass_({"f": 1})
    assert (await store.info()).entries == 0


async def test_cached_pass_is_cancelled_when_budget_ends(idle_clock: None) -> None:
    @module_pass(opt_level=0, cacheable=True)
    async def Hang(mod: Module, ctx: PassContext) -> Module:
        await anyio.sleep_forever()
        return mod

    with pytest.raises(apass.errors.BudgetExceededError, match="pass 'Hang' ran out of the budget"):
        async with PassContext(store=MemoryStore(), deadline=10):
            await Hang({"f": 1})


async def test_cached_pipeline_is_not_cancelled_as_whole(idle_clock: None) -> None:
    @function_pass(opt_level=0, cacheable=True, on_error="keep")
    async def Hang(func: int, mod: Module, ctx: PassContext) -> int:
        await anyio.sleep_forever()
        return func

    async with PassContext(store=MemoryStore(), deadline=10):
        assert await apass.Sequential([Hang])({"f": 1}) == {"f": 1}


async def test_result_of_another_ir_is_cached() -> None:
    calls = Calls()

    @module_pass(opt_level=0, cacheable=True)
    def Read(mod: Any, ctx: PassContext) -> Any:
        calls.append(mod)
        return relay.parse(mod["text"])

    store, texts = MemoryStore(), list[str]()
    for _ in range(2):
        async with PassContext(store=store):
            result = await Read({"text": "def @main(%x: int32) { %x }"})
        assert isinstance(result, relay.IRModule)
        texts.append(result.astext())
    assert (len(calls), texts[0]) == (1, texts[1])


class Gone(dict[str, int]):
    """A type of modules that a test deletes."""


class GoneAdapter(DictAdapter):
    """Adapter of `Gone`."""

    def loads(self, data: bytes) -> Gone:
        """Return a module of type `Gone`."""
        return Gone(super().loads(data))


apass.register_adapter(Gone, GoneAdapter())


async def test_result_is_recomputed_when_its_type_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls()
    kind = Gone

    @module_pass(opt_level=0, cacheable=True)
    def Make(mod: Any, ctx: PassContext) -> Any:
        calls.append("made")
        return kind(mod)

    store = MemoryStore()
    for _ in range(2):
        async with PassContext(store=store):
            assert type(await Make({"f": 1})) is kind
    monkeypatch.delattr("tests.runner.test_cache_options.Gone")
    async with PassContext(store=store):
        assert type(await Make({"f": 1})) is kind
    assert len(calls) == 2


class One(apass.FunctionPass[Module, int]):
    """Replaces each function by 1."""

    info = apass.PassInfo(opt_level=0, name="One")
    cacheable = True

    def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        """Return 1."""
        return 1


class Two(apass.FunctionPass[Module, int]):
    """Replaces each function by 2."""

    info = apass.PassInfo(opt_level=0, name="Two")
    cacheable = True

    def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        """Return 2."""
        return 2


async def test_passes_without_options_differ_by_name_and_module() -> None:
    async with PassContext(store=MemoryStore()):
        assert [await One()({"f": 7}), await Two()({"f": 7})] == [{"f": 1}, {"f": 2}]


async def test_functions_differ_by_variable_names() -> None:
    @function_pass(opt_level=0, cacheable=True)
    def First(func: relay.Function, mod: relay.IRModule, ctx: PassContext) -> relay.Function:
        return relay.Function(func.params, func.params[0], func.ret_type, func.type_params, func.attrs)

    async with PassContext(store=MemoryStore()):
        for name in ("x", "data"):
            result = await First(relay.parse(f"def @main(%{name}: int32) {{ add(%{name}, 1) }}"))
            assert [param.name_hint for param in result["main"].params] == [name]


async def test_results_depend_on_apass_version(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls()

    @module_pass(opt_level=0, cacheable=True)
    def RecordVersion(mod: Module, ctx: PassContext) -> Module:
        calls.append(own_version())
        return {}

    store = MemoryStore()
    for version in ("1.0", "1.1", "1.1"):
        monkeypatch.setattr(apass.runner.cache_keys, "own_version", lambda version=version: version)
        async with PassContext(store=store):
            await RecordVersion({"f": 1})
    assert len(calls) == 2


def test_version_is_unknown_when_apass_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(apass.runner.cache_keys, "version_of", fail)
    assert own_version.__wrapped__() == "unknown"
