"""Checks of operators: run their kernels, and compare types and values."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from apass.relay.errors import TypeInferenceError
from apass.relay.expr import Call, Constant, Expr, Op, TupleGetItem, Var
from apass.relay.ir.expr import TupleWrapper
from apass.relay.ir.ndarray import Array
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
"""An array with a type that allows arithmetic in the type checkers."""

X, Y, Z = Var("x"), Var("y"), Var("z")
"""Variables without types, for calls."""


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> Numbers:
    """Return random numbers; integers are small, so that sums do not overflow."""
    rng = np.random.default_rng((seed, *shape))
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    low = 0 if np.dtype(dtype).kind == "u" else -4
    return rng.integers(low, 5, shape).astype(dtype)


def call_of(expr: Expr | TupleWrapper) -> Call:
    """Return the call that an operator's function built."""
    built = expr.astuple() if isinstance(expr, TupleWrapper) else expr
    built = built.tuple_value if isinstance(built, TupleGetItem) else built
    assert isinstance(built, Call)
    return built


def type_of(value: Array | tuple[Array, ...]) -> Type:
    """Return the type of a value."""
    if isinstance(value, tuple):
        return TupleType([TensorType(field.shape, str(field.dtype)) for field in value])
    return TensorType(value.shape, str(value.dtype))


def inferred(expr: Expr | TupleWrapper, *types: Type | None) -> Sequence[Type | None] | None:
    """Return the result of a call's relation for argument types; None is unknown."""
    call = call_of(expr)
    assert isinstance(call.op, Op)
    assert call.op.relation is not None
    return call.op.relation([*(ty or IncompleteType() for ty in types), IncompleteType()], call.attrs)


def refused(expr: Expr | TupleWrapper, *types: Type | None) -> str:
    """Return the message of the error that a call's relation raises for these types."""
    with pytest.raises(TypeInferenceError) as caught:
        inferred(expr, *types)
    return str(caught.value)


def evaluated_fields(expr: Expr | TupleWrapper, *arrays: npt.ArrayLike) -> tuple[Numbers, ...]:
    """Return the fields of the result of a call's kernel.

    The inferred types must be those of the values, and the kernel must not write to its inputs.
    """
    call = call_of(expr)
    assert isinstance(call.op, Op)
    assert call.op.compute is not None
    constants = [arg.data.numpy() if isinstance(arg, Constant) else None for arg in call.args]
    variables = iter([np.asarray(array) for array in arrays])
    inputs = [next(variables) if constant is None else constant for constant in constants]
    before = [value.copy() for value in inputs]
    out = call.op.compute(*inputs) if call.attrs is None else call.op.compute(call.attrs, *inputs)
    for value, copy in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(value, copy, err_msg="the kernel wrote to its input")
    types = inferred(call, *map(type_of, inputs))
    assert types is not None
    assert types[-1] == type_of(out)
    for index, value in enumerate(inputs):
        assert types[index] in {None, type_of(value)}
    return out if isinstance(out, tuple) else (out,)


def evaluated(expr: Expr | TupleWrapper, *arrays: npt.ArrayLike) -> Numbers:
    """Return the result of a call's kernel, checked as in `evaluated_fields`."""
    (out,) = evaluated_fields(expr, *arrays)
    return out


def close(actual: npt.ArrayLike, expected: npt.ArrayLike, tolerance: float = 1e-5) -> None:
    """Check that numbers are equal except for rounding."""
    np.testing.assert_allclose(np.asarray(actual, "float64"), np.asarray(expected, "float64"), tolerance, tolerance)


def same(actual: npt.ArrayLike, expected: npt.ArrayLike) -> None:
    """Check that arrays are equal."""
    np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected))


def onnx_outputs(name: str, inputs: Sequence[Array], **attributes: Any) -> list[Numbers]:
    """Return the outputs of ONNX's reference evaluator for one node."""
    names = [f"x{index}" for index in range(len(inputs))]
    node = helper.make_node(name, names, ["out"], **attributes)
    values = [
        helper.make_tensor_value_info(input_name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for input_name, array in zip(names, inputs, strict=True)
    ]
    graph = helper.make_graph([node], name, values, [helper.make_tensor_value_info("out", 0, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
    evaluator: Any = ReferenceEvaluator(model)
    outputs = evaluator.run(None, dict(zip(names, inputs, strict=True)))
    return [np.asarray(output) for output in outputs]
