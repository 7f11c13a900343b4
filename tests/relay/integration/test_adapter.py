"""The adapter of Relay: the laws of adapters, and its strategy."""

from hypothesis import given, settings
from hypothesis import strategies as st

import apass
from apass.relay.integration.adapter import ADAPTER
from apass.relay.ir.module import IRModule
from apass.relay.parser import parse
from apass.relay.text.printing.printer import astext
from apass.relay.transform import FoldConstant
from apass.testing import check_adapter
from apass.testing.strategies import modules
from tests.helpers.amounts import amount


@settings(max_examples=amount(20))
@given(st.lists(modules(ADAPTER), min_size=1, max_size=2))
def test_laws_of_adapters_hold(mods: list[IRModule]) -> None:
    check_adapter(ADAPTER, [*mods, IRModule()])


def test_laws_hold_for_data_types() -> None:
    text = """
type Shape { Square(float32), Round(float32) }
def @area(%s: Shape) -> float32 { match (%s) { Square(%x) => multiply(%x, %x), Round(%r) => %r } }
def @main(%x: float32) -> float32 { @area(Square(%x)) }
"""
    check_adapter(ADAPTER, [parse(text), parse(text.replace("multiply", "add"))])


def test_functions_of_other_compilers_are_skipped() -> None:
    text = """
def @main(%x: int32) -> int32 { @other(%x) }
def @other(%x: int32, Compiler="ext") -> int32 { add(add(1, 2), %x) }
"""
    mod = apass.run(FoldConstant(), parse(text))
    assert "add(1 /* ty=int32 */, 2 /* ty=int32 */)" in astext(mod)


@given(modules(ADAPTER))
def test_strategy_yields_typed_modules(mod: IRModule) -> None:
    assert mod["main"].checked_type_ is not None
