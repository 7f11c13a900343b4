"""FastMath: approximate functions such as exp by polynomials.

The counterpart of TVM's `fast_math.cc`.
"""

from collections.abc import Mapping
from typing import Final

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.ir.calls import op_name
from apass.relay.ir.expr import Call, Expr, Op
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.transform.function_pass import function_pass
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["FAST", "FastMath", "fast_math"]

FAST: Final[Mapping[str, str]] = {
    "exp": "fast_exp",
    "erf": "fast_erf",
    "tanh": "fast_tanh",
    "nn.softmax": "nn.fast_softmax",
}
"""The approximation of each operator."""


def fast_math(func: Function) -> Function:
    """Return the function with every operator of `FAST` replaced by its approximation."""
    return rewrite_function(_FastMath(), func)


@provide_pass("FastMath")
def FastMath() -> FunctionPass[IRModule, Function]:
    """Approximate exp, erf, tanh and softmax; results differ in the last digits."""
    return function_pass(_approximate, opt_level=4, name="FastMath", required=["InferType"])


def _approximate(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return fast_math(func)


class _FastMath(ExprMutator):
    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        fast = FAST.get(op_name(new))
        if fast is None or not isinstance(new, Call):
            return new
        return Call(Op.get(fast), new.args, new.attrs, span=new.span)
