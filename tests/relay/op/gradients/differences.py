"""Comparison of gradients with finite differences, in float64."""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from apass.relay import op
from apass.relay.expr import Call, Expr, Var
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import TupleGetItem, const
from apass.relay.ir.ndarray import Array
from apass.relay.transform import gradient
from apass.relay.transform.autodiff.first_order import first_order_gradient
from apass.relay.ty import FuncType, TupleType
from apass.relay.type_inference.infer import infer_expr

__all__ = ["check_call", "check_function", "differences", "gradients", "loss_of", "value_of"]

STEP = 1e-5


def arrays(value: object) -> list[Array]:
    """Return the tensors of a value that is a tensor or a tuple."""
    if isinstance(value, tuple):
        fields = cast("tuple[object, ...]", value)
        return [array for field in fields for array in arrays(field)]
    return [np.asarray(value)]


def value_of(func: object, inputs: Sequence[Array]) -> object:
    """Return the value of a call of a function, compiled or not."""
    if not isinstance(func, Function):
        assert callable(func)
        return func(*inputs)
    return evaluate(func, *inputs) if inputs else evaluate(Call(func, []))


def scalar_of(result: object) -> float:
    """Return the number that a function returned."""
    return float(np.asarray(result).item())


def loss_of(call: Expr, values: Mapping[Var, Array]) -> Function:
    """Return the function of the weighted sum of all elements of a result."""
    params = list(values)
    typed = infer_expr(Function(params, call))
    result = typed.checked_type
    outputs = arrays(value_of(Function(params, call), list(values.values())))
    rng = np.random.default_rng(len(outputs))
    assert isinstance(result, FuncType)
    is_tuple = isinstance(result.ret_type, TupleType)
    fields: list[Expr] = [TupleGetItem(call, index) for index in range(len(outputs))] if is_tuple else [call]
    total: Expr | None = None
    for field, output in zip(fields, outputs, strict=True):
        weights = const(rng.uniform(0.5, 1.5, output.shape), "float64")
        part = op.sum(op.multiply(op.cast(field, "float64"), weights))
        total = part if total is None else op.add(total, part)
    assert total is not None
    return Function(params, total)


def differences(func: Function, inputs: Sequence[Array]) -> list[NDArray[np.float64]]:
    """Return the central differences of a scalar function for its inputs.

    The differences for inputs that are not float64 are zero. Next to a jump or a bend, where the differences to both
    sides disagree, they are nan.
    """
    slopes = [np.zeros(array.shape) for array in inputs]
    run = evaluate(func)
    assert not inputs or callable(run)
    middle = scalar_of(value_of(run, inputs)) if inputs else 0.0
    for position, (slope, array) in enumerate(zip(slopes, inputs, strict=True)):
        for index in np.ndindex(array.shape) if array.dtype == np.float64 else ():
            moved, sides = array.copy(), list[float]()
            for sign in (1, -1):
                moved[index] = np.add(array[index], sign * STEP)
                end = scalar_of(value_of(run, (*inputs[:position], moved, *inputs[position + 1 :])))
                sides.append(sign * (end - middle) / STEP)
            mean = sum(sides) / 2
            slope[index] = mean if abs(sides[0] - sides[1]) < 1e-2 * max(1, abs(mean)) else np.nan
    return slopes


def gradients(func: Function, inputs: Sequence[Array]) -> list[Array]:
    """Return the gradients of a function, which both modes agree on."""
    found: list[list[Array]] = []
    for mode in (first_order_gradient, gradient):
        new = mode(func)
        value, slopes = _pair(value_of(new, inputs))
        assert np.allclose(value, scalar_of(value_of(func, inputs)), rtol=1e-12, equal_nan=True)
        found.append(arrays(slopes))
    for first, higher, array in zip(*found, inputs, strict=True):
        np.testing.assert_array_equal(first, higher)
        assert (first.shape, first.dtype) == (array.shape, array.dtype)
    return found[0]


def _pair(value: object) -> tuple[Array, object]:
    assert isinstance(value, tuple)
    pair = cast("tuple[object, ...]", value)
    return np.asarray(pair[0]), pair[1]


def check_function(func: Function, inputs: Sequence[Array], *, indices: bool = False) -> None:
    """Check the gradients of a scalar function where its differences are finite.

    With `indices`, inputs that are not float64 select elements, and must have a gradient of zero. All differences must
    then be finite.
    """
    with np.errstate(all="ignore"):
        expected, actual = differences(func, inputs), gradients(func, inputs)
    for slope, grad, array in zip(expected, actual, inputs, strict=True):
        if array.dtype == np.float64 or indices:
            defined = np.isfinite(slope)
            assert defined.all() or not indices
            np.testing.assert_allclose(grad[defined].astype("float64"), slope[defined], rtol=2e-5, atol=2e-6)


def check_call(build: Callable[..., Expr], inputs: Sequence[Array]) -> None:
    """Check the gradients of an expression of variables with the given values."""
    params = [Var(f"x{index}", const(array, str(array.dtype)).checked_type) for index, array in enumerate(inputs)]
    func = loss_of(build(*params), dict(zip(params, inputs, strict=True)))
    check_function(func, inputs, indices=True)
