"""ConvertLayout: run operators, and those between them, in other layouts.

The counterpart of TVM's `convert_layout.cc`.
"""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from apass.core.context import PassContext
from apass.errors import PassDefinitionError, did_you_mean
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.ir.calls import op_name
from apass.relay.ir.expr import OP_ATTRS, OPS, Call, Expr, Op
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ty import Type
from apass.relay.op.layouts.convert import FTVMConvertOpLayout
from apass.relay.transform.convert_layout.rewriter import LayoutRewriter
from apass.relay.transform.function_pass import function_pass
from apass.relay.type_inference.infer import ensure_typed
from apass.relay.visitors.expr_functor import rewrite_function

__all__ = ["ConvertLayout", "convert_layout"]

_HOOK: Final = "FTVMConvertOpLayout"


def convert_layout(func: Function, desired_layouts: Mapping[str, Sequence[str]]) -> Function:
    """Return the function with operators in the desired layouts.

    Tensors change their layout before the first of these operators and after the last. Operators between them work in
    the new layout as well: elementwise operators, pooling, concatenation, padding, reductions and others. A call stays
    as it is if the blocks of a layout do not divide an axis.

    Parameters:
        func: the function, typed.
        desired_layouts: the layouts of the operands by operator, as in `{"nn.conv2d": ["NHWC", "HWIO"]}`. The layout
            of the weight may be `default`. The operator must have an `FTVMConvertOpLayout`, as convolutions, pooling
            and resizing have.

    Raises:
        PassDefinitionError: if an operator or a layout cannot be converted.

    """
    _check(desired_layouts)

    def convert(call: Call, inputs: Sequence[Expr], types: Sequence[Type]) -> Expr | None:
        layouts = desired_layouts.get(op_name(call))
        hook = call.op.get_attr(_HOOK) if isinstance(call.op, Op) else None
        if layouts is None or hook is None:
            return None
        return cast("FTVMConvertOpLayout", hook)(call.attrs, inputs, types, list(layouts))

    return rewrite_function(LayoutRewriter(_HOOK, convert), func)


@provide_pass("ConvertLayout")
def ConvertLayout(desired_layouts: dict[str, list[str]]) -> FunctionPass[IRModule, Function]:
    """Convert operators to other layouts, as in `{"nn.conv2d": ["NHWC", "default"]}`.

    The operators between them are converted as well.
    """
    try:
        _check(desired_layouts)
    except PassDefinitionError as error:
        error.option = "desired_layouts"
        raise

    layouts = {name: tuple(layouts) for name, layouts in desired_layouts.items()}

    def convert(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return convert_layout(ensure_typed(func, mod), layouts)

    required = ["InferType", "CanonicalizeOps"]
    # Not cacheable: the result also depends on a LayoutConfig and on hooks that users register.
    return function_pass(convert, opt_level=3, name="ConvertLayout", required=required, cacheable=False)


def _check(desired_layouts: Mapping[str, Sequence[str]]) -> None:
    if not isinstance(cast("object", desired_layouts), Mapping):
        raise PassDefinitionError(
            f'desired_layouts must be a mapping, as {{"nn.conv2d": ["NHWC", "default"]}}, got {desired_layouts!r}'
        )
    hooks = {name: hook for name, (_, hook) in OP_ATTRS.get(_HOOK, {}).items()}
    for name, layouts in desired_layouts.items():
        if name not in OPS:
            raise PassDefinitionError(f"no operator is named {name!r}{did_you_mean(name, OPS)}")
        if name not in hooks:
            raise PassDefinitionError(
                f"ConvertLayout has no rule for operator {name!r}{did_you_mean(name, hooks)}; "
                f"register one with relay.op.register_convert_op_layout"
            )
        if isinstance(layouts, str) or not layouts:
            raise PassDefinitionError(f"the layouts of {name} must be a list, one for each tensor, got {layouts!r}")
        check = getattr(hooks[name], "check", None)
        if callable(check):
            check(layouts)
