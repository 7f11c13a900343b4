"""Invalid attributes of each operator: type inference reports them."""

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from itertools import product
from typing import get_type_hints

import pytest

from apass.relay.errors import TypeInferenceError
from apass.relay.expr import OPS, Call, Expr, Op, Tuple, Var
from apass.relay.function import Function
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.module import IRModule
from apass.relay.ir.variables import free_vars
from apass.relay.ty import TensorType
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import some
from tests.helpers.rows import row

INVALID = [
    "x",
    -1,
    -100,
    0,
    5,
    10**30,
    0.5,
    None,
    (),
    (0,),
    (1,),
    (-7, 3),
    (1, 1, 1, 1, 1, 1, 1),
    ((1, 2), (3,)),
    ("x",),
]
PLAUSIBLE = {"str": "float32", "int": 1, "bool": 1, "float": 1.0}
WITH_ATTRS = sorted(name for name, op in OPS.items() if op.attrs_type is not None)


def required(op: Op) -> dict[str, object]:
    """Return plausible values of the attributes without defaults."""
    assert op.attrs_type is not None
    hints = get_type_hints(op.attrs_type)
    names = [field.name for field in fields(op.attrs_type) if _is_required(field)]
    return {name: PLAUSIBLE.get(getattr(hints[name], "__name__", ""), (1, 1)) for name in names}


def _is_required(field: Field[object]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def arguments(op: Op, rank: int) -> Iterator[list[Expr]]:
    """Iterate over arguments: tensors of a rank, and a tuple of them."""
    tensors = [Var(f"x{index}", TensorType([4] * rank)) for index in range(max(op.num_inputs, 1))]
    yield list(tensors)
    yield [Tuple(tensors)]


def infer(op: Op, attrs: Attrs | None, args: list[Expr]) -> str:
    """Return the error in the type of a call, or nothing."""
    call = Call(op, args, attrs)
    func = Function(free_vars(call), call)
    try:
        infer_module(IRModule.from_expr(func))
    except TypeInferenceError as error:
        return str(error)
    return ""


def test_window_attributes_need_a_number_for_each_dimension() -> None:
    data, weight = Var("x", TensorType([1, 3, 8, 8])), Var("w", TensorType([4, 3, 3, 3]))
    op = Op.get("nn.conv2d")
    expected = "nn.conv2d: strides must have 2 numbers, got (1,)"
    assert expected in infer(op, op.make_attrs(strides=(1,)), [data, weight])
    data, weight = Var("x", TensorType([1, 3, 8])), Var("w", TensorType([3, 4, 3]))
    op = Op.get("nn.conv1d_transpose")
    expected = "nn.conv1d_transpose: padding must have 1 or 2 numbers, got 3: (1, 1, 1)"
    assert expected in infer(op, op.make_attrs(padding=(1, 1, 1)), [data, weight])


def test_attribute_of_wrong_type_is_named() -> None:
    op = Op.get("nn.softmax")
    expected = "nn.softmax: the attribute axis must be int, got 'x'"
    assert expected in infer(op, op.make_attrs(axis="x"), [Var("x", TensorType([2]))])
    pad = Op.get("nn.pad").make_attrs(pad_width=((1, 1),))
    assert "the attributes must be SoftmaxAttrs, got PadAttrs" in infer(op, pad, [Var("x", TensorType([2]))])


def test_dimension_beyond_64_bits_is_an_error() -> None:
    op = Op.get("repeat")
    error = infer(op, op.make_attrs(repeats=2**62, axis=0), [Var("x", TensorType([4]))])
    assert "more than 2**63 - 1 elements: it has 65 bits" in error


@pytest.mark.slow
def test_invalid_attribute_is_a_type_error() -> None:
    for name in WITH_ATTRS:
        op = Op.get(name)
        assert op.attrs_type is not None
        given = required(op)
        lists = [args for rank in range(1, 6) for args in arguments(op, rank)]
        for args, field, value in some(list(product(lists, fields(op.attrs_type), INVALID))):
            with row((name, field.name, value)):
                infer(op, op.make_attrs(**{**given, field.name: value}), args)
