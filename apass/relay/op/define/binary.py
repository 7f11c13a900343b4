"""Definition of binary operators that broadcast as numpy does."""

import numpy as np

from apass.relay.ir.expr import Op
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import broadcast_relation, comparison_relation
from apass.relay.op.define.unary import Function, quiet

__all__ = ["define_binary", "define_comparison"]


def define_binary(name: str, function: Function, description: str, level: int = 4) -> Op:
    """Define an operator whose result has the element type of its inputs."""
    return register_op(
        name,
        arguments=("lhs", "rhs"),
        relation=broadcast_relation(name),
        compute=quiet(function),
        pattern=OpPattern.BROADCAST,
        level=level,
        description=description,
    )


def define_comparison(name: str, function: Function, description: str, level: int = 4) -> Op:
    """Define an operator whose result is a tensor of bools."""

    def compute(lhs: Array, rhs: Array) -> Array:
        return np.asarray(function(lhs, rhs))

    return register_op(
        name,
        arguments=("lhs", "rhs"),
        relation=comparison_relation(name),
        compute=compute,
        pattern=OpPattern.BROADCAST,
        level=level,
        description=description,
    )
