"""Integers in types and attributes are ints with TVM's `value`."""

import json
import pickle
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass import relay
from apass.relay.expr import Call
from apass.relay.ir.attrs import Attrs, DictAttrs
from apass.relay.ty import FuncType, IntImm, TensorType, TupleType
from tests.helpers.amounts import levels


def attrs_of(expr: object) -> Attrs:
    """Return the attributes of a call."""
    assert isinstance(expr, Call)
    assert expr.attrs is not None
    return expr.attrs


def test_dimension_of_parameter_has_value() -> None:
    mod = relay.parse('#[version = "0.0.5"]\ndef @main(%x: Tensor[(10, 5), float32]) { nn.relu(%x) }')
    checked = mod["main"].checked_type
    assert isinstance(checked, FuncType)
    for ty in (checked.arg_types[0], checked.ret_type):
        assert isinstance(ty, TensorType)
        assert [dim.value for dim in ty.shape if isinstance(dim, IntImm)] == [10, 5]
        assert type(ty.shape[0]) is IntImm


@given(st.integers(-(2**63), 2**63 - 1))
def test_immediate_is_an_int_with_value(number: int) -> None:
    imm = IntImm(number)
    assert (imm, hash(imm), str(imm), repr(imm), json.dumps(imm)) == (
        number,
        hash(number),
        str(number),
        *[str(number)] * 2,
    )
    assert (imm.value, type(imm.value)) == (number, int)
    assert imm.dtype == ("int32" if np.iinfo(np.int32).min <= number <= np.iinfo(np.int32).max else "int64")
    assert pickle.loads(pickle.dumps(imm)) == imm
    assert type(pickle.loads(pickle.dumps(imm))) is IntImm
    assert type(imm + 1) is int


def test_types_with_equal_dimensions_are_equal() -> None:
    plain, wrapped = TensorType(np.array([2, 3]).tolist()), TensorType((IntImm(2), IntImm(3)))
    assert plain == wrapped
    assert hash(plain) == hash(wrapped)
    assert wrapped.shape == (2, 3)
    assert str(wrapped) == "Tensor[(2, 3), float32]"
    assert [type(dim) for dim in plain.shape] == [IntImm, IntImm]
    assert TupleType([plain]).fields[0] == wrapped


def test_integers_of_attributes_are_immediates() -> None:
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
    attrs = attrs_of(relay.nn.conv2d(x, w, strides=(2, 2), channels=4, kernel_size=(3, 3)))
    for name in ("strides", "padding", "dilation", "kernel_size"):
        items = cast("tuple[object, ...]", attrs[name])
        assert {type(item) for item in items} == {IntImm}
    assert type(attrs["channels"]) is IntImm
    assert type(attrs["groups"]) is int  # TVM declares it as a plain integer
    pad = relay.nn.pad(x, ((0, 0), (0, 0), (1, 1), (2, 2)))
    pads = cast("tuple[tuple[object, ...], ...]", attrs_of(pad)["pad_width"])
    assert {type(item) for pair in pads for item in pair} == {IntImm}


def test_attributes_print_and_parse_as_integers() -> None:
    x = relay.var("x", shape=(2, 3))
    func = relay.Function([x], relay.take(relay.reshape(x, (3, 2)), relay.const(0), axis=0))
    text = relay.astext(func)
    assert "newshape=[3, 2]" in text
    assert "axis=0" in text
    assert relay.structural_equal(relay.parser.parse_expr(text), func)


def test_default_of_integer_field_is_not_printed() -> None:
    call = relay.op.reduce.sum(relay.var("x", shape=(2, 3)), axis=(0,))
    assert dict(attrs_of(call).non_default()).keys() == {"axis"}


def test_integer_of_function_attribute_has_value() -> None:
    attrs = DictAttrs({"Primitive": 1, "flag": True, "name": "f"})
    assert attrs["Primitive"] == 1
    assert type(attrs["Primitive"]) is IntImm
    assert attrs["flag"] is True


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("int", "int32"), ("uint", "uint32"), ("float", "float32"), ("uint1", "bool"), ("int64", "int64")],
)
def test_element_type_has_canonical_name(name: str, dtype: str) -> None:
    assert TensorType((), name).dtype == dtype
    assert TensorType((), name) == TensorType((), dtype)
    assert attrs_of(relay.cast(relay.var("x", shape=()), name))["dtype"] == dtype


def test_deep_attribute_is_unchanged() -> None:
    value: object = 1
    for _ in range(levels(100_000)):
        value = (value,)
    assert DictAttrs({"deep": value})["deep"] is not None


def test_integer_attributes_have_values() -> None:
    x, indices = relay.var("x", shape=(4, 4)), relay.var("i", shape=(2,), dtype="int32")
    for call, name, value in (
        (relay.take(x, indices, 1), "batch_dims", 0),
        (relay.take(x, indices, 1), "axis", 1),
        (relay.repeat(x, 3, 0), "repeats", 3),
        (relay.reverse(x, 1), "axis", 1),
        (relay.stack([x, x], 1), "axis", 1),
        (relay.gather(x, 1, indices), "axis", 1),
        (relay.gather_nd(x, indices), "batch_dims", 0),
        (relay.scatter(x, x, x, 1), "axis", 1),
        (relay.scatter_add(x, x, x, 1), "axis", 1),
        (relay.reverse_sequence(x, indices, 1, 0), "seq_axis", 1),
        (relay.reverse_sequence(x, indices, 1, 0), "batch_axis", 0),
        (relay.topk(x, 2, ret_type="values"), "k", 2),
    ):
        attribute = attrs_of(call)[name]
        assert isinstance(attribute, IntImm)
        assert attribute.value == value
