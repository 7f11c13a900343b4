"""The adapter of Relay: the laws of adapters, and its strategy."""

from hypothesis import given, settings
from hypothesis import strategies as st

from apass.relay.integration.adapter import ADAPTER
from apass.relay.ir.module import IRModule
from apass.relay.parser import parse
from apass.testing import check_adapter
from apass.testing.strategies import modules


@settings(max_examples=20)
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


@given(modules(ADAPTER))
def test_strategy_yields_typed_modules(mod: IRModule) -> None:
    assert mod["main"].checked_type_ is not None
