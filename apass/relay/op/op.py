"""What TVM has in `relay.op.op`: operators by name, and what is registered for them."""

from apass.relay.expr import Op
from apass.relay.op.define.registry import (
    OpPattern,
    get,
    register,
    register_convert_op_layout,
    register_op_attr,
    register_pattern,
)

__all__ = ["Op", "OpPattern", "get", "register", "register_convert_op_layout", "register_op_attr", "register_pattern"]
