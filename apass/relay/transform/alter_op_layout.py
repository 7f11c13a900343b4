"""AlterOpLayout: run operators in the layouts that registered hooks choose.

The counterpart of TVM's `alter_op_layout.cc`. ConvertLayout and this pass share the rewriter that propagates layouts.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, cast

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.calls import op_name
from apass.relay.ir.expr import Call, Expr, Op
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ty import TensorType, Type
from apass.relay.op.layouts.infer import tensors_of
from apass.relay.transform.convert_layout.rewriter import LayoutRewriter
from apass.relay.transform.function_pass import function_pass
from apass.relay.type_inference.infer import ensure_typed
from apass.relay.visitors.expr_functor import rewrite_function

__all__ = ["AlterOpLayout", "FTVMAlterOpLayout", "alter_op_layout"]

FTVMAlterOpLayout: TypeAlias = Callable[[Attrs | None, Sequence[Expr], Sequence[TensorType], Type], Expr | None]
"""`hook(attrs, inputs, tinfos, out_type)` returns another call, or None to leave the call unchanged.

`inputs` are the rewritten operands. `tinfos` are the types of the tensors in the original program, with the fields of
tuples listed one by one. `out_type` is the type of the original result.
"""

_HOOK: Final = "FTVMAlterOpLayout"


def alter_op_layout(func: Function) -> Function:
    """Return the function with calls altered by the hooks of their operators.

    The new call may have another operator and other layouts. Tensors change their layout where the
    `FInferCorrectLayout` of the new operator requires it, and operators between altered calls work in the new layout. A
    call stays as it is if its new operator has no `FInferCorrectLayout`, or if a block does not divide an axis. If the
    operator of the original call has no `FInferCorrectLayout`, the call is replaced by the result of the hook.

    Parameters:
        func: the function, typed.

    Raises:
        TypeError: if a hook returns anything but None or a call with as many arguments.

    """
    return rewrite_function(_Alterer(_HOOK, _altered), func)


@provide_pass("AlterOpLayout")
def AlterOpLayout() -> FunctionPass[IRModule, Function]:
    """Run operators in the layouts that their registered hooks choose."""
    # Not cacheable: the result also depends on hooks that users register.
    return function_pass(_alter, opt_level=3, name="AlterOpLayout", required=["InferType"], cacheable=False)


def _alter(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return alter_op_layout(ensure_typed(func, mod))


def _altered(call: Call, inputs: Sequence[Expr], types: Sequence[Type]) -> Expr | None:
    hook = call.op.get_attr(_HOOK) if isinstance(call.op, Op) else None
    tensors = tensors_of(types)
    tinfos = [ty for ty in tensors if isinstance(ty, TensorType)]
    if hook is None or len(tinfos) != len(tensors):
        return None
    return cast("FTVMAlterOpLayout", hook)(call.attrs, list(inputs), tinfos, call.checked_type)


class _Alterer(LayoutRewriter):
    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        if not isinstance(call.op, Op) or not isinstance(new, Call) or call.op.get_attr("FInferCorrectLayout"):
            return new
        # Without a rule, the operands are in their original layouts, and so is the result.
        result = self.alter(call, new.args, [arg.checked_type for arg in call.args])
        if result is None:
            return new
        if not isinstance(result, Call):
            raise TypeError(f"the {_HOOK} of {op_name(call)} must return None or a call, got {result!r}")
        return result
