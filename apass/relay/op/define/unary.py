"""Definition of elementwise operators of one tensor."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from apass.relay.ir.expr import Compute, Op
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import elementwise_relation, predicate_relation

__all__ = ["Function", "define_predicate", "define_unary", "quiet"]

Function = Callable[..., npt.ArrayLike]
"""A function of numpy arrays."""


def quiet(function: Function) -> Compute:
    """Return a kernel that computes `function` in the element type of its first input.

    It emits no warnings for overflow or invalid values, as in C.
    """

    def compute(*inputs: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(*inputs)).astype(inputs[0].dtype, copy=False)

    return compute


def define_unary(name: str, function: Function, description: str, level: int = 1) -> Op:
    """Define an operator whose result has the type of its input."""
    return register_op(
        name,
        arguments=("data",),
        relation=elementwise_relation(name),
        compute=quiet(function),
        pattern=OpPattern.ELEMWISE,
        level=level,
        description=description,
    )


def define_predicate(name: str, function: Callable[[Array], Array], description: str, level: int = 3) -> Op:
    """Define an operator whose result is a bool for each element."""

    def compute(data: Array) -> Array:
        return np.asarray(function(data))

    return register_op(
        name,
        arguments=("data",),
        relation=predicate_relation(name),
        compute=compute,
        pattern=OpPattern.ELEMWISE,
        level=level,
        description=description,
    )
