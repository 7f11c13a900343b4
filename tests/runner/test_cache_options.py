"""Passes whose results are kept do what they promise otherwise too: analyses, time, errors, and which pass it is."""

from importlib.metadata import PackageNotFoundError
from typing import Any

import anyio
import pytest

import apass
import apass.runner.result_cache
from apass import PassContext, function_pass, module_pass, relay
from apass.adapters.mapping import DictAdapter
from apass.runner.result_cache import own_version
from apass.stores import MemoryStore

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


async def test_what_a_kept_pass_preserves_is_taken_over() -> None:
    seen: list[Module] = []

    @apass.analysis
    def Size(mod: Module) -> int:
        seen.append(mod)
        return len(mod)

    @module_pass(opt_level=0, cacheable=True, preserves={Size})
    def Rename(mod: Module, ctx: PassContext) -> Module:
        return {f"{name}_": func for name, func in mod.items()}

    store, mod = MemoryStore(), {"f": 1, "g": 2}
    usual = {"computed": 1, "preserved": 1, "hit": 1}
    for counts in (usual, {**usual, "pass stored": 1}):
        async with PassContext(store=store) as ctx:
            await ctx.get(Size, mod)
            assert await ctx.get(Size, await Rename(mod)) == 2
        assert ctx.analyses.counts == counts
    assert seen == [mod, mod]


async def test_functions_that_were_kept_are_counted() -> None:
    @function_pass(opt_level=0, cacheable=True)
    async def Add(func: int, mod: Module, ctx: PassContext) -> int:
        return func + 1

    store = MemoryStore()
    for counts in ({}, {"pass stored": 2}):
        async with PassContext(store=store) as ctx:
            assert await Add({"f": 1, "g": 2}) == {"f": 2, "g": 3}
        assert ctx.analyses.counts == counts


async def test_a_function_that_was_left_as_it_was_is_the_same_object() -> None:
    @function_pass(opt_level=0, cacheable=True)
    async def Leave(func: list[int], mod: Module, ctx: PassContext) -> list[int]:
        return func

    store, mod = MemoryStore(), {"f": [1, 2]}
    for _ in range(2):
        async with PassContext(store=store):
            assert await Leave(mod) is mod


async def test_a_pass_that_returns_nothing_is_told_and_not_kept() -> None:
    nothing: Any = None

    @module_pass(opt_level=0, cacheable=True)
    def Forgetful(mod: Module, ctx: PassContext) -> Module:
        made: Module = nothing
        return made

    @function_pass(opt_level=0, cacheable=True)
    def ForgetfulBody(func: int, mod: Module, ctx: PassContext) -> int:
        made: int = nothing
        return made

    store = MemoryStore()
    async with PassContext(store=store):
        for pass_ in (Forgetful, ForgetfulBody):
            with pytest.raises(apass.PassResultError, match=r"Forgetful(Body)?' returned None"):
                await pass_({"f": 1})
    assert (await store.info()).entries == 0


async def test_a_kept_pass_that_hangs_is_cut_off_by_the_budget() -> None:
    @module_pass(opt_level=0, cacheable=True)
    async def Hang(mod: Module, ctx: PassContext) -> Module:
        await anyio.sleep_forever()
        return mod

    with anyio.fail_after(60), pytest.raises(apass.BudgetExceededError, match="pass 'Hang' ran out of the budget"):
        async with PassContext(store=MemoryStore(), deadline=0.05):
            await Hang({"f": 1})


async def test_a_kept_pipeline_is_not_cut_off_as_a_whole() -> None:
    @function_pass(opt_level=0, cacheable=True, on_error="keep")
    async def Hang(func: int, mod: Module, ctx: PassContext) -> int:
        await anyio.sleep_forever()
        return func

    async with PassContext(store=MemoryStore(), deadline=0.05):
        assert await apass.Sequential([Hang])({"f": 1}) == {"f": 1}


async def test_a_result_of_another_ir_is_kept_too() -> None:
    calls: list[Module] = []

    @module_pass(opt_level=0, cacheable=True)
    def Read(mod: Any, ctx: PassContext) -> Any:
        calls.append(mod)
        return relay.parse(mod["text"])

    store, texts = MemoryStore(), list[str]()
    for _ in range(2):
        async with PassContext(store=store):
            made = await Read({"text": "def @main(%x: int32) { %x }"})
        assert isinstance(made, relay.IRModule)
        texts.append(made.astext())
    assert (len(calls), texts[0]) == (1, texts[1])


class Gone(dict[str, int]):
    """A type of modules that will not be there any more."""


class GoneAdapter(DictAdapter):
    """An adapter of its own."""

    def loads(self, data: bytes) -> Gone:
        """Read a module of that type."""
        return Gone(super().loads(data))


apass.register_adapter(Gone, GoneAdapter())


async def test_a_result_whose_type_is_not_there_any_more_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
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
    """Gives one for each function."""

    info = apass.PassInfo(opt_level=0, name="One")
    cacheable = True

    def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        """Give it."""
        return 1


class Two(apass.FunctionPass[Module, int]):
    """Gives two for each function."""

    info = apass.PassInfo(opt_level=0, name="Two")
    cacheable = True

    def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        """Give it."""
        return 2


async def test_passes_without_options_are_told_apart_by_name_and_place() -> None:
    async with PassContext(store=MemoryStore()):
        assert [await One()({"f": 7}), await Two()({"f": 7})] == [{"f": 1}, {"f": 2}]


async def test_functions_are_told_apart_by_the_names_in_them() -> None:
    @function_pass(opt_level=0, cacheable=True)
    def First(func: relay.Function, mod: relay.IRModule, ctx: PassContext) -> relay.Function:
        return relay.Function(func.params, func.params[0], func.ret_type, func.type_params, func.attrs)

    async with PassContext(store=MemoryStore()):
        for name in ("x", "data"):
            made = await First(relay.parse(f"def @main(%{name}: int32) {{ add(%{name}, 1) }}"))
            assert [one.name_hint for one in made["main"].params] == [name]


async def test_another_version_of_apass_does_not_take_what_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    @module_pass(opt_level=0, cacheable=True)
    def Note(mod: Module, ctx: PassContext) -> Module:
        calls.append(own_version())
        return {}

    store = MemoryStore()
    for version in ("1.0", "1.1", "1.1"):
        monkeypatch.setattr(apass.runner.result_cache, "own_version", lambda version=version: version)
        async with PassContext(store=store):
            await Note({"f": 1})
    assert len(calls) == 2


def test_where_apass_is_not_installed_its_version_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(apass.runner.result_cache, "version_of", fail)
    assert own_version.__wrapped__() == "unknown"
