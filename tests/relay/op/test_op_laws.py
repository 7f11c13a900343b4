"""Laws of all operators: the type relation and the kernel agree."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apass.relay import op
from apass.relay.expr import OPS, Op
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.variables import free_vars
from apass.relay.structural.equality import assert_structural_equal
from apass.relay.text.parsing.reader import read_module
from apass.relay.ty import Any, Dim, FuncType, IncompleteType, TensorType, TupleType, Type
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import amount
from tests.relay.op.drawn import Draw, inputs_of, result_of, type_of
from tests.relay.op.drawn_calls import CALLS, draw_call


def _relation_result(name: str, types: Sequence[Type], attrs: object) -> Type | None:
    """Return the result type that an operator's relation returns."""
    relation = OPS[name].relation
    assert relation is not None
    result = relation([*types, IncompleteType()], attrs)
    return None if result is None else result[-1]


def _matches(inferred: Type | None, actual: Type) -> bool:
    """Return whether a type equals another, whose dimensions may be symbolic."""
    if isinstance(inferred, TupleType) and isinstance(actual, TupleType):
        return len(inferred.fields) == len(actual.fields) and all(map(_matches, inferred.fields, actual.fields))
    if not isinstance(inferred, TensorType) or not isinstance(actual, TensorType):
        return False
    same_rank = len(inferred.shape) == len(actual.shape)
    pairs = zip(inferred.shape, actual.shape, strict=False)
    return same_rank and inferred.dtype == actual.dtype and all(isinstance(a, Any) or a == b for a, b in pairs)


def _with_symbolic_dims(ty: Type, draw: Draw) -> Type:
    """Return a type with some of its dimensions replaced by symbolic ones."""
    if isinstance(ty, TupleType):
        return TupleType([_with_symbolic_dims(field, draw) for field in ty.fields])
    assert isinstance(ty, TensorType)
    shape: list[Dim] = [Any() if draw.flag() else dim for dim in ty.shape]
    return TensorType(shape, ty.dtype)


@pytest.mark.parametrize("name", sorted(CALLS))
@given(data=st.data())
@settings(max_examples=amount(12))
def test_kernel_result_has_the_inferred_type(name: str, data: st.DataObject) -> None:
    """The kernel also leaves its inputs unchanged."""
    draw = Draw(data)
    call = draw_call(name, draw)
    assert isinstance(call.op, Op)
    assert call.op.name == name
    inferred = _relation_result(name, [type_of(value) for value in inputs_of(call, draw)], call.attrs)
    before = {variable: array.copy() for variable, array in draw.values.items()}
    actual = type_of(result_of(call, draw))
    assert _matches(inferred, actual)
    for variable, array in draw.values.items():
        np.testing.assert_array_equal(array, before[variable])
    # The shape of these two results depends on values.
    assert inferred == actual or name in ("argwhere", "collapse_sum_to")


@pytest.mark.parametrize("name", sorted(CALLS))
@given(data=st.data())
@settings(max_examples=amount(12))
def test_relation_is_sound_for_symbolic_dimensions(name: str, data: st.DataObject) -> None:
    draw = Draw(data)
    call = draw_call(name, draw)
    types = [_with_symbolic_dims(type_of(value), draw) for value in inputs_of(call, draw)]
    # Each of these relations requires a static dimension, so its types stay as they are.
    if name == "squeeze" and getattr(call.attrs, "axis", None) is None:
        types = [type_of(value) for value in inputs_of(call, draw)]
    if name == "scatter_nd":
        types[1] = type_of(inputs_of(call, draw)[1])
    if name == "collapse_sum_to":
        types[1] = type_of(inputs_of(call, draw)[1])
    assert _matches(_relation_result(name, types, call.attrs), type_of(result_of(call, draw)))


@pytest.mark.parametrize("name", sorted(CALLS))
@given(data=st.data())
@settings(max_examples=amount(2, least=1))
def test_relation_waits_for_incomplete_types(name: str, data: st.DataObject) -> None:
    draw = Draw(data)
    call = draw_call(name, draw)
    if call.args:
        assert _relation_result(name, [IncompleteType() for _ in call.args], call.attrs) is None


@pytest.mark.parametrize("name", sorted(CALLS))
@given(data=st.data())
@settings(max_examples=amount(3, least=1))
def test_call_survives_printing_and_parsing(name: str, data: st.DataObject) -> None:
    draw = Draw(data)
    call = draw_call(name, draw)
    mod = IRModule.from_expr(Function(free_vars(call), call))
    assert_structural_equal(mod, read_module(mod.astext()))
    inferred = infer_module(mod)["main"].checked_type
    assert isinstance(inferred, FuncType)
    assert _matches(inferred.ret_type, type_of(result_of(call, draw)))


def test_laws_cover_every_operator_outside_nn() -> None:
    names = {name for name in OPS if not name.startswith(("nn.", "image.", "dyn.", "example."))}
    assert names == set(CALLS)


def test_every_operator_has_description_and_argument_names() -> None:
    for operator in (OPS[name] for name in CALLS):
        assert operator.description.endswith(".")
        assert operator.num_inputs == len(operator.arguments)
        assert isinstance(operator.get_attr("TOpPattern"), op.OpPattern)
