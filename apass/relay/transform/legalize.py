"""Legalize: replace calls of operators by the calls that registered hooks return.

The counterpart of TVM's `legalize.cc`.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, cast

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr, Op
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ty import Type
from apass.relay.transform.function_pass import function_pass
from apass.relay.type_inference.infer import ensure_typed
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["FTVMLegalize", "Legalize", "legalize"]

FTVMLegalize: TypeAlias = Callable[[Attrs | None, Sequence[Expr], Sequence[Type]], Expr | None]
"""`hook(attrs, inputs, types)` returns another call, or None to leave the call unchanged.

`inputs` are the rewritten operands. `types` are the types of the operands, and the type of the result as the last one.
"""

_HOOK: Final = "FTVMLegalize"


def legalize(func: Function, legalize_map_attr_name: str = _HOOK) -> Function:
    """Return the function with calls replaced by the results of registered hooks.

    Operands are replaced before the calls that use them. A replacement is not legalized again.

    Parameters:
        func: the function, typed.
        legalize_map_attr_name: the attribute of operators that holds the hooks.

    Raises:
        TypeError: if a hook returns anything but None or a call.

    >>> from apass.relay.ir.expr import var
    >>> from apass.relay.op.define.registry import get
    >>> from apass.relay.op.elementwise.arithmetic import add, multiply
    >>> x = var("x", shape=(2,))
    >>> func = ensure_typed(Function([x], add(x, x)), IRModule())
    >>> get("add").set_attr("FTVMDouble", lambda attrs, inputs, types: multiply(*inputs))
    >>> legalize(func, "FTVMDouble").body.op
    <relay.Op multiply>
    >>> get("add").reset_attr("FTVMDouble")
    """
    return rewrite_function(_Legalizer(legalize_map_attr_name), func)


@provide_pass("Legalize")
def Legalize(legalize_map_attr_name: str = _HOOK) -> FunctionPass[IRModule, Function]:
    """Replace calls of operators by what their hooks of this attribute return."""

    def replace(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return legalize(ensure_typed(func, mod), legalize_map_attr_name)

    # Not cacheable: the result also depends on hooks that users register.
    return function_pass(replace, opt_level=1, name="Legalize", required=["InferType"], cacheable=False)


class _Legalizer(ExprMutator):
    def __init__(self, attribute: str) -> None:
        super().__init__()
        self.attribute = attribute

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        hook = call.op.get_attr(self.attribute) if isinstance(call.op, Op) else None
        if hook is None or not isinstance(new, Call):
            return new
        types = [*(arg.checked_type for arg in call.args), call.checked_type]
        result = cast("FTVMLegalize", hook)(call.attrs, list(new.args), types)
        if result is None:
            return new
        if not isinstance(cast("object", result), Call):
            raise TypeError(f"the {self.attribute} of {call.op} must return None or a call, got {result!r}")
        return result
