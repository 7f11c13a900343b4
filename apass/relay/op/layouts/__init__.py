"""How operators take tensors in other layouts: `FInferCorrectLayout`, and `FTVMConvertOpLayout` of those that choose.

Importing it registers all of them.
"""

from apass.relay.op.layouts import along_axis, convert, elementwise, moves, reduce, slicing, windows
from apass.relay.op.layouts.infer import FInferCorrectLayout, InferCorrectLayoutOutput

__all__ = [
    "FInferCorrectLayout",
    "InferCorrectLayoutOutput",
    "along_axis",
    "convert",
    "elementwise",
    "moves",
    "reduce",
    "slicing",
    "windows",
]
