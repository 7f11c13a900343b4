"""How operators take tensors in other layouts: `FInferCorrectLayout`, and `FTVMConvertOpLayout` of those that choose.

Importing it registers all of them.
"""

from apass.relay.op.layouts import convert
from apass.relay.op.layouts import rules_axis as along_axis
from apass.relay.op.layouts import rules_elementwise as elementwise
from apass.relay.op.layouts import rules_moves as moves
from apass.relay.op.layouts import rules_reduce as reduce
from apass.relay.op.layouts import rules_slicing as slicing
from apass.relay.op.layouts import rules_windows as windows
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
