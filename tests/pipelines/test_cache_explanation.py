"""`explain_cache`: why results come from a store, or do not."""

from collections.abc import Callable
from typing import Any

import pytest

import apass
from apass import PassContext, Sequential, explain_cache
from apass.errors import StoreWarning
from apass.stores import MemoryStore

pytestmark = pytest.mark.anyio

Module = dict[str, str]


class Add(apass.FunctionPass[Module, str], opt_level=1, cacheable=True):
    suffix: str = "x"

    async def transform_function(self, func: str, mod: Module, ctx: PassContext) -> str:
        return func + self.suffix


class Rename(apass.ModulePass[Module], opt_level=1, cacheable=True):
    prefix: str = "my_"

    def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        return {self.prefix + name: func for name, func in mod.items()}


@apass.module_pass(opt_level=0)
def Plain(mod: Module, ctx: PassContext) -> Module:
    return mod


def keep(mod: Module, ctx: PassContext) -> Module:
    return mod


def is_named(mod: Module) -> bool:
    return "" not in mod


async def explained(pass_: apass.Pass[Module], mod: Module, store: MemoryStore, **options: Any) -> list[str]:
    return [str(item) for item in await explain_cache(pass_, mod, PassContext(store=store, **options))]


async def fill(pass_: apass.Pass[Module], mod: Module, store: MemoryStore, **options: Any) -> None:
    await pass_.run(mod, ctx=PassContext(store=store, **options))


PIPELINE = Sequential([Rename(), Add(), Plain])


async def test_empty_store_has_no_result() -> None:
    assert await explained(PIPELINE, {"f": "a"}, MemoryStore()) == [
        "missing  Rename  no run has stored a result of this pass",
        "missing  Add  0 of 1 functions; no run has stored a result of this pass",
        "never    Plain  the pass is not cacheable",
    ]


async def test_result_of_the_same_run_is_missing() -> None:
    @apass.module_pass(opt_level=0, cacheable=True)
    def Keep(mod: Module, ctx: PassContext) -> Module:
        return mod

    store, pipeline = MemoryStore(), Sequential([Keep, Keep])
    missing = "missing  Keep  no run has stored a result of this pass"
    assert await explained(pipeline, {"f": "a"}, store) == [missing, missing]
    await fill(pipeline, {"f": "a"}, store)
    assert await explained(pipeline, {"f": "a"}, store) == ["stored   Keep", "stored   Keep"]


async def test_second_run_finds_all_results() -> None:
    store = MemoryStore()
    await fill(PIPELINE, {"f": "a"}, store)
    assert await explained(PIPELINE, {"f": "a"}, store) == [
        "stored   Rename",
        "stored   Add  1 of 1 functions",
        "never    Plain  the pass is not cacheable",
    ]


async def test_other_input_is_named() -> None:
    store = MemoryStore()
    await fill(Sequential([Rename(), Add()]), {"f": "a"}, store)
    assert await explained(Sequential([Rename(), Add()]), {"f": "a", "g": "b"}, store) == [
        "missing  Rename  stored for other modules only",
        "missing  Add  1 of 2 functions; stored for other functions only",
    ]


@pytest.mark.parametrize(
    ("first", "second", "options", "difference"),
    [
        (Rename("a_"), Rename("b_"), {}, "option prefix 'a_', now 'b_'"),
        (Rename(), Rename("b_"), {}, "option prefix not set, now 'b_'"),
        (Rename("a_" * 40), Rename("b_"), {}, "option prefix another value, now 'b_'"),
        (Rename(), Rename(), {"opt_level": 3}, "opt_level 2, now 3"),
    ],
)
async def test_parts_of_the_key_are_compared(
    first: apass.Pass[Module], second: apass.Pass[Module], options: dict[str, Any], difference: str
) -> None:
    store = MemoryStore()
    await fill(first, {"f": "a"}, store)
    assert [line.partition("  stored ")[2] for line in await explained(second, {"f": "a"}, store, **options)] == [
        f"for this module with {difference}"
    ]
    assert [line.partition("  stored ")[2] for line in await explained(second, {"f": "b"}, store, **options)] == [
        f"with {difference}, for other modules only"
    ]


async def test_nearest_key_is_compared() -> None:
    store = MemoryStore()
    for prefix, level in (("a_", 1), ("b_", 3), ("c_", 3)):
        await fill(Rename(prefix), {"f": "a"}, store, opt_level=level)
    assert await explained(Rename("a_"), {"f": "a"}, store, opt_level=2) == [
        "missing  Rename{prefix=a_}  stored for this module with opt_level 1, now 2"
    ]


async def test_code_and_version_are_compared() -> None:
    def made(body: Callable[[Module, PassContext], Module], version: str) -> apass.Pass[Module]:
        return apass.module_pass(body, opt_level=0, name="Made", cacheable=True, version=version)

    def keep(mod: Module, ctx: PassContext) -> Module:
        return mod

    def copy(mod: Module, ctx: PassContext) -> Module:
        return {**mod}

    copy.__qualname__ = keep.__qualname__
    store = MemoryStore()
    await fill(made(keep, "1"), {"f": "a"}, store)
    assert await explained(made(copy, "2"), {"f": "a"}, store) == [
        "missing  Made  stored for this module with version 1, now 2, other code"
    ]


async def test_other_contract_is_a_reason() -> None:
    def made(**contract: Any) -> apass.Pass[Module]:
        return apass.module_pass(keep, opt_level=0, name="Keep", cacheable=True, **contract)

    store = MemoryStore()
    await fill(made(), {"f": "a"}, store)
    named = apass.register_property("test_cache_explanation.named", is_named)
    assert await explained(made(ensures=[named]), {"f": "a"}, store) == [
        "missing  Keep  stored for this module with other contract"
    ]
    await fill(made(ensures=[named]), {"f": "a"}, store)
    assert await explained(made(requires=[named]), {"f": "a"}, store) == [
        "missing  Keep  stored for this module with other contract"
    ]


async def test_explaining_changes_no_store() -> None:
    store = MemoryStore()
    await fill(Rename(), {"f": "a"}, store)
    before = await store.info()
    await explained(Sequential([Rename("b_"), Add()]), {"f": "b"}, store)
    assert await store.info() == before


async def test_removed_result_is_named() -> None:
    store = MemoryStore()
    await fill(Rename(), {"f": "a"}, store)
    key = next(key for key in store._entries if key.startswith("pass/"))  # pyright: ignore[reportPrivateUsage]
    store._drop(key)  # pyright: ignore[reportPrivateUsage]
    assert await explained(Rename(), {"f": "a"}, store) == ["missing  Rename  the store has removed it to make room"]


async def test_option_without_fingerprint_is_the_reason() -> None:
    class Ask(apass.ModulePass[Module], opt_level=0, cacheable=True):
        device: object = None

        def transform_module(self, mod: Module, ctx: PassContext) -> Module:
            return mod

    with pytest.warns(StoreWarning):
        (line,) = await explained(Ask(object()), {"f": "a"}, MemoryStore())
    assert line.startswith("never    Ask  results of pass Ask of ")
    assert line.endswith("which has no fingerprint; define __fingerprint__ on its class, or do not use it")


async def test_pass_without_functions_asks_for_nothing() -> None:
    assert await explained(Add(), {}, MemoryStore()) == ["never    Add  the pass has no functions"]


async def test_context_needs_a_store() -> None:
    with pytest.raises(apass.errors.PassContextError, match="the context has no store"):
        await explain_cache(Plain, {}, PassContext())


async def test_stored_keys_are_bounded() -> None:
    store = MemoryStore()
    for number in range(20):
        await fill(Rename(f"{number}_"), {"f": "a"}, store)
    assert (await explained(Rename("0_"), {"f": "a"}, store)) == ['stored   Rename{prefix="0_"}']
    assert (await explained(Rename("x_"), {"f": "a"}, store)) == [
        "missing  Rename{prefix=x_}  stored for this module with option prefix '19_', now 'x_'"
    ]


@pytest.mark.parametrize("value", [b"", b"[]", b'{"a": 1}', b"junk"])
async def test_damaged_record_counts_as_missing(value: bytes) -> None:
    store = MemoryStore()
    await fill(Rename(), {"f": "a"}, store)
    key = next(key for key in store._entries if key.startswith("keys/"))  # pyright: ignore[reportPrivateUsage]
    await store.put(key, value)
    with pytest.warns(StoreWarning, match="is damaged"):
        lines = await explained(Rename("b_"), {"f": "a"}, store)
    assert lines == ["missing  Rename{prefix=b_}  no run has stored a result of this pass"]


async def test_text_of_a_pipeline_is_explained() -> None:
    ctx = PassContext(store=MemoryStore())
    (item,) = await explain_cache("Sequential", {"f": "a"}, ctx)
    assert str(item) == "never    Sequential  the pass is not cacheable"
    no_ctx: Any = ctx.store
    with pytest.raises(TypeError, match="the ctx must be of type PassContext, got <"):
        await explain_cache("Sequential", {"f": "a"}, no_ctx)
