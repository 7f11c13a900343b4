"""Layout inference and conversion of operators.

Importing this package registers `FInferCorrectLayout` and `FTVMConvertOpLayout` for all operators that have them.
"""

from apass.relay.op.layouts import (
    convert,
    rules_axis,
    rules_elementwise,
    rules_moves,
    rules_reduce,
    rules_slicing,
    rules_windows,
)
from apass.relay.op.layouts.infer import FInferCorrectLayout, InferCorrectLayoutOutput

__all__ = [
    "FInferCorrectLayout",
    "InferCorrectLayoutOutput",
    "convert",
    "rules_axis",
    "rules_elementwise",
    "rules_moves",
    "rules_reduce",
    "rules_slicing",
    "rules_windows",
]
