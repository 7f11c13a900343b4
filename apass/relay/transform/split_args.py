"""SplitArgs: split long concatenations, to bound the operands of a kernel."""

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.ir.calls import op_name
from apass.relay.ir.expr import Call, Expr, Tuple
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.op.annotation import stop_fusion
from apass.relay.transform.function_pass import function_pass
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["SplitArgs", "split_args"]


def split_args(func: Function, max_function_args: int) -> Function:
    """Return a function whose concatenations have few enough operands.

    More than `max_function_args` are concatenated in groups, and then the groups. Each group is marked not to be fused
    with what follows.

    Raises:
        ValueError: if `max_function_args` is less than two.

    """
    if max_function_args < 2:
        raise ValueError(f"max_function_args must be at least 2, got {max_function_args}")
    return rewrite_function(_Splitter(max_function_args), func)


@provide_pass("SplitArgs")
def SplitArgs(max_function_args: int) -> FunctionPass[IRModule, Function]:
    """Split concatenations of more than `max_function_args` operands into groups."""

    def split(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return split_args(func, max_function_args)

    return function_pass(split, opt_level=1, name="SplitArgs", required=["InferType"])


class _Splitter(ExprMutator):
    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        if op_name(new) != "concatenate" or not isinstance(new, Call) or not isinstance(new.args[0], Tuple):
            return new
        fields: list[Expr] = list(new.args[0].fields)
        if len(fields) <= self._limit:
            return new
        while len(fields) > self._limit:
            fields = [self._joined(new, fields[i : i + self._limit]) for i in range(0, len(fields), self._limit)]
        return Call(new.op, (Tuple(fields),), new.attrs, span=new.span)

    def _joined(self, call: Call, group: list[Expr]) -> Expr:
        return group[0] if len(group) == 1 else stop_fusion(Call(call.op, (Tuple(group),), call.attrs))
