"""What the tests of operators share: a kernel is run, and its result held against what the type relation tells."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from apass.relay.errors import TypeInferenceError
from apass.relay.expr import Call, Constant, Expr, Op, TupleGetItem, Var
from apass.relay.ir.ndarray import Array
from apass.relay.tuple_wrapper import TupleWrapper
from apass.relay.ty import IncompleteType, TensorType, TupleType, Type

__all__ = [
    "Numbers",
    "X",
    "Y",
    "Z",
    "call_of",
    "close",
    "evaluated",
    "evaluated_fields",
    "inferred",
    "numbers",
    "onnx_outputs",
    "refused",
    "same",
    "type_of",
]

Numbers: TypeAlias = npt.NDArray[Any]
"""An array that the type checkers let one calculate with."""

X, Y, Z = Var("x"), Var("y"), Var("z")
"""Variables without types, for calls."""


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> Numbers:
    """Return random numbers, small enough that whole ones add up without a carry."""
    rng = np.random.default_rng((seed, *shape))
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    low = 0 if np.dtype(dtype).kind == "u" else -4
    return rng.integers(low, 5, shape).astype(dtype)


def call_of(expr: Expr | TupleWrapper) -> Call:
    """Return the call that an operator's function made."""
    made = expr.astuple() if isinstance(expr, TupleWrapper) else expr
    made = made.tuple_value if isinstance(made, TupleGetItem) else made
    assert isinstance(made, Call)
    return made


def type_of(value: Array | tuple[Array, ...]) -> Type:
    """Return the type of a value."""
    if isinstance(value, tuple):
        return TupleType([TensorType(one.shape, str(one.dtype)) for one in value])
    return TensorType(value.shape, str(value.dtype))


def inferred(expr: Expr | TupleWrapper, *types: Type | None) -> Sequence[Type | None] | None:
    """Return what the relation of a call tells of these types of its arguments; None is a type that is not known."""
    call = call_of(expr)
    assert isinstance(call.op, Op)
    assert call.op.relation is not None
    return call.op.relation([*(one or IncompleteType() for one in types), IncompleteType()], call.attrs)


def refused(expr: Expr | TupleWrapper, *types: Type | None) -> str:
    """Return the message with which the relation of a call refuses these types."""
    with pytest.raises(TypeInferenceError) as caught:
        inferred(expr, *types)
    return str(caught.value)


def evaluated_fields(expr: Expr | TupleWrapper, *arrays: npt.ArrayLike) -> tuple[Numbers, ...]:
    """Return what the kernel of a call computes, a tuple; its type is the one that the relation tells."""
    call = call_of(expr)
    assert isinstance(call.op, Op)
    assert call.op.compute is not None
    values = [one.data.numpy() if isinstance(one, Constant) else None for one in call.args]
    given = iter([np.asarray(one) for one in arrays])
    inputs = [next(given) if one is None else one for one in values]
    before = [one.copy() for one in inputs]
    out = call.op.compute(*inputs) if call.attrs is None else call.op.compute(call.attrs, *inputs)
    for one, other in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(one, other, err_msg="the kernel wrote to its input")
    told = inferred(call, *map(type_of, inputs))
    assert told is not None
    assert told[-1] == type_of(out)
    for place, one in enumerate(inputs):
        assert told[place] in {None, type_of(one)}
    return out if isinstance(out, tuple) else (out,)


def evaluated(expr: Expr | TupleWrapper, *arrays: npt.ArrayLike) -> Numbers:
    """Return what the kernel of a call computes; its type is the one that the relation tells."""
    (out,) = evaluated_fields(expr, *arrays)
    return out


def close(actual: npt.ArrayLike, expected: npt.ArrayLike, tolerance: float = 1e-5) -> None:
    """Check that numbers are those expected but for rounding."""
    np.testing.assert_allclose(np.asarray(actual, "float64"), np.asarray(expected, "float64"), tolerance, tolerance)


def same(actual: npt.ArrayLike, expected: npt.ArrayLike) -> None:
    """Check that arrays are equal."""
    np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected))


def onnx_outputs(name: str, inputs: Sequence[Array], **attributes: Any) -> list[Numbers]:
    """Return what ONNX's reference evaluator computes for one node."""
    names = [f"x{place}" for place in range(len(inputs))]
    node = helper.make_node(name, names, ["out"], **attributes)
    values = [
        helper.make_tensor_value_info(one, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for one, array in zip(names, inputs, strict=True)
    ]
    graph = helper.make_graph([node], name, values, [helper.make_tensor_value_info("out", 0, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
    evaluator: Any = ReferenceEvaluator(model)
    outputs = evaluator.run(None, dict(zip(names, inputs, strict=True)))
    return [np.asarray(one) for one in outputs]
