"""Checks of exported programs against the evaluator."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from apass import relay
from apass.relay.backend import to_onnx
from apass.relay.expr import Expr
from apass.relay.function import Function
from apass.relay.interpreter.compare_outputs import difference, random_arguments
from apass.relay.interpreter.evaluate import Value, evaluate
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import Array
from apass.relay.type_inference.infer import infer_module
from tests.relay.backend.round_trips import run_model

__all__ = ["CHECKER", "assert_same_outputs", "checked", "flat", "tuple_of"]

CHECKER: Any = onnx.checker
"""The checker, whose declaration has unknown types."""


def flat(value: Value) -> list[Array]:
    """Return the arrays of a value, those of tuples in order."""
    if isinstance(value, tuple):
        return [array for field in value for array in flat(field)]
    assert isinstance(value, np.ndarray)
    return [value]


def checked(program: IRModule | Function, **options: Any) -> onnx.ModelProto:
    """Return an exported model that passes the full check."""
    model: onnx.ModelProto = to_onnx(program, **options)
    CHECKER.check_model(model, full_check=True)
    return model


def assert_same_outputs(program: IRModule | Function, arguments: Sequence[Any] | None = None, **options: Any) -> None:
    """Compare the outputs in onnxruntime with those of the evaluator."""
    mod = infer_module(IRModule.from_expr(program) if isinstance(program, Function) else program)
    values = random_arguments(mod["main"]) if arguments is None else arguments
    with np.errstate(all="ignore"):
        expected = flat(evaluate(mod, *values))
    outputs = run_model(checked(mod, **options), [array for value in values for array in flat(value)])
    assert difference(tuple(expected), tuple(outputs)) == ""


def tuple_of(value: Expr | relay.TupleWrapper) -> Expr:
    """Return an expression without its wrapper."""
    return value if isinstance(value, Expr) else value.astuple()
