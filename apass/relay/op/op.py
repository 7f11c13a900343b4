"""The names of TVM's `relay.op.op`: lookup of operators and registration."""

from apass.relay.ir.expr import Op
from apass.relay.op.debugger import debug
from apass.relay.op.define.registry import (
    OpPattern,
    get,
    register,
    register_alter_op_layout,
    register_convert_op_layout,
    register_gradient,
    register_infer_correct_layout,
    register_legalize,
    register_mixed_precision_conversion,
    register_op_attr,
    register_pattern,
    register_stateful,
)

__all__ = [
    "Op",
    "OpPattern",
    "debug",
    "get",
    "register",
    "register_alter_op_layout",
    "register_convert_op_layout",
    "register_gradient",
    "register_infer_correct_layout",
    "register_legalize",
    "register_mixed_precision_conversion",
    "register_op_attr",
    "register_pattern",
    "register_stateful",
]
