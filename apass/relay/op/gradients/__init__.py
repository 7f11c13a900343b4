"""The gradients of the operators of this package, registered on import.

Each is the `FPrimalGradient` of its operator, see `relay.op.register_gradient`. The operators are those with a gradient
in TVM 0.8, and almost all others that have a derivative.
"""

from apass.relay.op.define.registry import FPrimalGradient
from apass.relay.op.gradients import convolutions, einsum, elementwise, index, nn, pooling, reduce, separable, shape

__all__ = [
    "FPrimalGradient",
    "convolutions",
    "einsum",
    "elementwise",
    "index",
    "nn",
    "pooling",
    "reduce",
    "separable",
    "shape",
]
