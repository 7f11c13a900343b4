"""The operators of Relay: `relay.op`.

Importing this package registers all of them.
"""

from apass.relay.ir.expr import Op
from apass.relay.op import algorithm, annotation, contrib, functions, image, nn, op, op_attrs, reduce, tensor, transform
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
from apass.relay.op.dyn import dyn
from apass.relay.op.dyn import nn as dyn_nn
from apass.relay.op.functions import *
from apass.relay.op.gradients import FPrimalGradient
from apass.relay.op.layouts import FInferCorrectLayout, InferCorrectLayoutOutput

__all__: list[str] = [
    "FInferCorrectLayout",
    "FPrimalGradient",
    "InferCorrectLayoutOutput",
    "Op",
    "OpPattern",
    "algorithm",
    "annotation",
    "contrib",
    "debug",
    "dyn",
    "dyn_nn",
    "get",
    "image",
    "nn",
    "op",
    "op_attrs",
    "reduce",
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
    "tensor",
    "transform",
]
__all__ += functions.__all__
