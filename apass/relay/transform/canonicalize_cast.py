"""CanonicalizeCast: give each user of a widening cast its own.

The counterpart of TVM's `canonicalize_cast.cc`.
"""

from collections import Counter

import numpy as np

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.ir.calls import op_name, tensor_type
from apass.relay.ir.expr import Call, Expr, Op
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.op.define.registry import OpPattern
from apass.relay.transform.function_pass import function_pass
from apass.relay.type_inference.infer import ensure_typed
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["CanonicalizeCast", "canonicalize_cast"]


def canonicalize_cast(func: Function) -> Function:
    """Return the function with no widening cast shared by calls that can fuse it.

    The function must be typed. A cast to a wider type is free when it is fused. A shared cast is computed on its own,
    and its result takes more memory than its operand.
    """
    return rewrite_function(_CastSplitter(), func)


@provide_pass("CanonicalizeCast")
def CanonicalizeCast() -> FunctionPass[IRModule, Function]:
    """Give each user of a shared widening cast its own copy, so that it can be fused."""
    return function_pass(_canonicalize, opt_level=3, name="CanonicalizeCast", required=["InferType"])


def _canonicalize(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return canonicalize_cast(ensure_typed(func, mod))


class _CastSplitter(ExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.uses: Counter[Expr] = Counter()
        """Number of users seen so far for each widening cast."""

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        if not isinstance(new, Call) or not _is_broadcast(call.op):
            return new
        args = [self._unshared(old, arg) for old, arg in zip(call.args, new.args, strict=True)]
        changed = any(arg is not old for arg, old in zip(args, new.args, strict=True))
        return Call(new.op, args, new.attrs, new.type_args, span=new.span) if changed else new

    def _unshared(self, old: Expr, arg: Expr) -> Expr:
        """Return the argument, copied if it is a widening cast with an earlier user."""
        if not _is_widening_cast(old) or not isinstance(arg, Call):
            return arg
        self.uses[old] += 1
        return arg if self.uses[old] == 1 else Call(arg.op, arg.args, arg.attrs, span=arg.span)


def _is_broadcast(op: Expr) -> bool:
    pattern = op.get_attr("TOpPattern") if isinstance(op, Op) else None
    return isinstance(pattern, OpPattern) and pattern <= OpPattern.BROADCAST


def _is_widening_cast(expr: Expr) -> bool:
    if op_name(expr) != "cast" or not isinstance(expr, Call):
        return False
    source, target = (np.dtype(tensor_type(node).dtype).itemsize for node in (expr.args[0], expr))
    return target > source
