"""ConvertLayout: operators work in other layouts, and what stands between them too; TVM's `convert_layout.cc`."""

from collections.abc import Mapping, Sequence
from typing import cast

from apass.core.context import PassContext
from apass.errors import PassDefinitionError, did_you_mean
from apass.passes.base import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.expr import OP_ATTRS, OPS
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.rewriting import rewrite_function
from apass.relay.transform.convert_layout.rewriter import LayoutRewriter
from apass.relay.transform.support.decorators import function_pass
from apass.relay.type_inference.infer import ensure_typed

__all__ = ["ConvertLayout", "convert_layout"]


def convert_layout(func: Function, desired_layouts: Mapping[str, Sequence[str]]) -> Function:
    """Return a typed function in which operators work in the layouts that are wanted.

    Tensors change their layout before the first of them and after the last. What stands between (elementwise operators,
    pooling, concatenation, padding, reductions, ...) works in the new layout as well. A call stays as it is where the
    blocks of a layout do not divide an axis.

    Parameters:
        func: the function.
        desired_layouts: by operator the layouts of its operands, as `{"nn.conv2d": ["NHWC", "HWIO"]}`; that of the
            weight may be `default`. An operator has to have an `FTVMConvertOpLayout`, as convolutions, pooling and
            resizing have.

    Raises:
        PassDefinitionError: if an operator or a layout is none that this can do.

    """
    _check(desired_layouts)
    return rewrite_function(LayoutRewriter(desired_layouts), func)


@provide_pass("ConvertLayout")
def ConvertLayout(desired_layouts: dict[str, list[str]]) -> FunctionPass[IRModule, Function]:
    """Make operators, and what stands between them, work in other layouts: `{"nn.conv2d": ["NHWC", "default"]}`."""
    try:
        _check(desired_layouts)
    except PassDefinitionError as error:
        error.option = "desired_layouts"
        raise

    wanted = {name: tuple(layouts) for name, layouts in desired_layouts.items()}

    def convert(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return convert_layout(ensure_typed(func, mod), wanted)

    required = ["InferType", "CanonicalizeOps"]
    # What it makes depends on a LayoutConfig and on hooks that users register, so that it is not kept.
    return function_pass(convert, opt_level=3, name="ConvertLayout", required=required, cacheable=False)


def _check(desired_layouts: Mapping[str, Sequence[str]]) -> None:
    if not isinstance(cast("object", desired_layouts), Mapping):
        raise PassDefinitionError(
            f'desired_layouts must be a mapping, as {{"nn.conv2d": ["NHWC", "default"]}}, not {desired_layouts!r}'
        )
    hooks = {name: hook for name, (_, hook) in OP_ATTRS.get("FTVMConvertOpLayout", {}).items()}
    for name, layouts in desired_layouts.items():
        if name not in OPS:
            raise PassDefinitionError(f"there is no operator named {name!r}{did_you_mean(name, OPS)}")
        if name not in hooks:
            raise PassDefinitionError(
                f"ConvertLayout does not know how to convert {name}{did_you_mean(name, hooks)}; "
                f"tell it with relay.op.register_convert_op_layout"
            )
        if isinstance(layouts, str) or not layouts:
            raise PassDefinitionError(f"the layouts of {name} must be a list, one for each tensor, not {layouts!r}")
        check = getattr(hooks[name], "check", None)
        if callable(check):
            check(layouts)
