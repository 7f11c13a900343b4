"""Laws that hold for every operator: its type relation and its kernel tell the same."""

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
from tests.relay.op.drawn import Draw, inputs_of, result_of, type_of
from tests.relay.op.drawn_calls import CALLS, draw_call


def _told(name: str, types: Sequence[Type], attrs: object) -> Type | None:
    """Return what the relation of an operator tells of the type of the result."""
    relation = OPS[name].relation
    assert relation is not None
    told = relation([*types, IncompleteType()], attrs)
    return None if told is None else told[-1]


def _fits(told: Type | None, actual: Type) -> bool:
    """Tell whether a type is one of those that another, with dimensions that are not known, allows."""
    if isinstance(told, TupleType) and isinstance(actual, TupleType):
        return len(told.fields) == len(actual.fields) and all(map(_fits, told.fields, actual.fields))
    if not isinstance(told, TensorType) or not isinstance(actual, TensorType):
        return False
    same_rank = len(told.shape) == len(actual.shape)
    pairs = zip(told.shape, actual.shape, strict=False)
    return same_rank and told.dtype == actual.dtype and all(isinstance(a, Any) or a == b for a, b in pairs)


def _blurred(ty: Type, draw: Draw) -> Type:
    """Return a type with some of its dimensions not known."""
    if isinstance(ty, TupleType):
        return TupleType([_blurred(one, draw) for one in ty.fields])
    assert isinstance(ty, TensorType)
    shape: list[Dim] = [Any() if draw.flag() else dim for dim in ty.shape]
    return TensorType(shape, ty.dtype)


@pytest.mark.parametrize("name", sorted(CALLS))
@given(data=st.data())
@settings(max_examples=12)
def test_the_kernel_gives_the_type_that_the_relation_tells_and_leaves_its_inputs_alone(
    name: str, data: st.DataObject
) -> None:
    draw = Draw(data)
    call = draw_call(name, draw)
    assert isinstance(call.op, Op)
    assert call.op.name == name
    told = _told(name, [type_of(one) for one in inputs_of(call, draw)], call.attrs)
    before = {one: array.copy() for one, array in draw.values.items()}
    actual = type_of(result_of(call, draw))
    assert _fits(told, actual)
    for one, array in draw.values.items():
        np.testing.assert_array_equal(array, before[one])
    assert told == actual or name in ("argwhere", "collapse_sum_to")


@pytest.mark.parametrize("name", sorted(CALLS))
@given(data=st.data())
@settings(max_examples=12)
def test_the_relation_tells_nothing_wrong_of_dimensions_that_are_not_known(name: str, data: st.DataObject) -> None:
    draw = Draw(data)
    call = draw_call(name, draw)
    types = [_blurred(type_of(one), draw) for one in inputs_of(call, draw)]
    if name == "squeeze" and getattr(call.attrs, "axis", None) is None:
        types = [type_of(one) for one in inputs_of(call, draw)]
    if name == "scatter_nd":
        types[1] = type_of(inputs_of(call, draw)[1])
    if name == "collapse_sum_to":
        types[1] = type_of(inputs_of(call, draw)[1])
    assert _fits(_told(name, types, call.attrs), type_of(result_of(call, draw)))


@pytest.mark.parametrize("name", sorted(CALLS))
@given(data=st.data())
@settings(max_examples=2)
def test_the_relation_waits_for_types_that_are_not_known(name: str, data: st.DataObject) -> None:
    draw = Draw(data)
    call = draw_call(name, draw)
    if call.args:
        assert _told(name, [IncompleteType() for _ in call.args], call.attrs) is None


@pytest.mark.parametrize("name", sorted(CALLS))
@given(data=st.data())
@settings(max_examples=3)
def test_a_call_has_a_type_and_is_the_same_after_it_was_printed_and_parsed(name: str, data: st.DataObject) -> None:
    draw = Draw(data)
    call = draw_call(name, draw)
    mod = IRModule.from_expr(Function(free_vars(call), call))
    assert_structural_equal(mod, read_module(mod.astext()))
    told = infer_module(mod)["main"].checked_type
    assert isinstance(told, FuncType)
    assert _fits(told.ret_type, type_of(result_of(call, draw)))


def test_every_operator_outside_nn_is_tried() -> None:
    own = {name for name in OPS if not name.startswith(("nn.", "image.", "dyn.", "example."))}
    assert own == set(CALLS)


def test_every_operator_says_what_it_computes_and_names_its_arguments() -> None:
    for one in (OPS[name] for name in CALLS):
        assert one.description.endswith(".")
        assert one.num_inputs == len(one.arguments)
        assert isinstance(one.get_attr("TOpPattern"), op.OpPattern)
