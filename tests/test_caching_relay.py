"""Results kept of Relay modules: what comes back is what would have been made, names, types and data types too."""

from typing import Any

import pytest

import apass
from apass import PassContext, relay
from apass.relay import IRModule, transform
from apass.relay.integration.adapter import ADAPTER
from apass.stores import MemoryStore

pytestmark = pytest.mark.anyio

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
    """Return a module of one function, whose parameters have these names."""
    return relay.parse(f"def @main(%{first}: float32, %{second}: float32) {{ add(%{first}, %{second}) }}")


async def test_parameters_keep_the_names_that_callers_know_them_by() -> None:
    store = MemoryStore()
    for names in (["x", "y"], ["data", "weight"]):
        async with PassContext(store=store):
            made = await transform.ToANormalForm()(sums(*names))
        assert [one.name_hint for one in made["main"].params] == names


async def test_a_kept_result_has_the_types_that_the_pass_gave() -> None:
    typed = await transform.InferType()(sums("x", "y"))
    store = MemoryStore()
    for mod in (typed, sums("x", "y"), sums("x", "y")):
        async with PassContext(store=store):
            assert (await transform.InferType()(mod))["main"].checked_type_ is not None


async def mark(func: relay.Function, mod: IRModule, ctx: PassContext) -> relay.Function:
    """Give a function an attribute."""
    ctx.statistic("marked")
    return relay.Function(func.params, func.body, func.ret_type, func.type_params, {"marked": 1})


async def test_a_kept_function_fits_into_the_module_that_it_is_put_into() -> None:
    make: Any = apass.function_pass
    pass_: apass.Pass[IRModule] = make(mark, opt_level=0, name="Mark", cacheable=True)
    store, others = (
        MemoryStore(),
        (LISTS, LISTS.replace("Nil,\n", "Nil,\n  More(A),\n"), LISTS.replace("%x, 1", "%x, 7")),
    )
    for text in others:
        wanted = await pass_(relay.parse(text))
        async with PassContext(store=store):
            made = await pass_(relay.parse(text))
        ADAPTER.verify(made)
        assert all(func.body.checked_type_ is not None for _, func in ADAPTER.functions(made))
        assert ADAPTER.equal(made, wanted)
        assert made.astext() == wanted.astext()
