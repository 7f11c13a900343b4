"""CanonicalizeCast: a widening cast that several calls share is made by each of them; TVM's `canonicalize_cast.cc`."""

from collections import Counter

import numpy as np

from apass.core.context import PassContext
from apass.passes.base import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.expr import Call, Expr, Op
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.ir.calls import op_name, tensor_type
from apass.relay.ir.module import IRModule
from apass.relay.op.define.registry import OpPattern
from apass.relay.rewriting import rewrite_function
from apass.relay.transform.support.decorators import function_pass
from apass.relay.type_inference.infer import ensure_typed

__all__ = ["CanonicalizeCast", "canonicalize_cast"]


def canonicalize_cast(func: Function) -> Function:
    """Return a typed function in which calls that could be fused with a widening cast each have one of their own.

    A cast to a wider type costs nothing when it is fused; one that is shared is computed for itself, and what it writes
    takes more memory than what it read.
    """
    return rewrite_function(_CastSplitter(), func)


@provide_pass("CanonicalizeCast")
def CanonicalizeCast() -> FunctionPass[IRModule, Function]:
    """Give each user of a shared widening cast a cast of its own, to be fused with it."""
    return function_pass(_canonicalize, opt_level=3, name="CanonicalizeCast", required=["InferType"])


def _canonicalize(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return canonicalize_cast(ensure_typed(func, mod))


class _CastSplitter(ExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.uses: Counter[Expr] = Counter()
        """How often each widening cast was met so far."""

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        if not isinstance(new, Call) or not _is_broadcast(call.op):
            return new
        args = [self._own(old, arg) for old, arg in zip(call.args, new.args, strict=True)]
        changed = any(arg is not old for arg, old in zip(args, new.args, strict=True))
        return Call(new.op, args, new.attrs, new.type_args, span=new.span) if changed else new

    def _own(self, old: Expr, arg: Expr) -> Expr:
        """Return the argument, a copy of it if it is a widening cast that another call has already."""
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
    given, made = (np.dtype(tensor_type(one).dtype).itemsize for one in (expr.args[0], expr))
    return made > given
