"""`ModulePass`, the base of passes over Relay modules, and `module_pass`."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from apass.core.context import PassContext
from apass.errors import AdapterError
from apass.passes.base import ModulePass as AnyModulePass
from apass.passes.decorators import module_pass as any_module_pass
from apass.relay.ir.expr import Expr
from apass.relay.ir.module import IRModule

__all__ = ["ModulePass", "check_is_module", "module_pass"]

Body: TypeAlias = Callable[[IRModule, PassContext], IRModule]
"""The body of a pass over a module."""


class ModulePass(AnyModulePass[IRModule]):
    """A pass over Relay modules; TVM's `ModulePass`.

    On any other input it raises AdapterError, a TypeError.
    """

    module_type = IRModule
    """The class of modules that the pass takes."""

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule | Awaitable[IRModule]:
        """Check the input, and transform it."""
        check_is_module(self.info.name, mod)
        return super().transform(mod, ctx)


def module_pass(body: Body, *, opt_level: int, name: str) -> AnyModulePass[IRModule]:
    """Return a pass over Relay modules whose results can be cached."""
    return any_module_pass(body, opt_level=opt_level, name=name, cacheable=True, base=ModulePass)


def check_is_module(name: str, value: object) -> None:
    """Check that the input of the pass of a name is a Relay module.

    Raises:
        AdapterError: if it is not; the message contains the way to convert it.

    """
    if isinstance(value, IRModule):
        return
    if isinstance(value, Expr):
        raise AdapterError(
            f"pass {name!r} requires an apass.relay.IRModule, got {value!r}; use IRModule.from_expr(expr)"
        )
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    hint = (
        "convert it with relay.FromONNX"
        if kind == "onnx_ir.Model"
        else "translate an ONNX model with apass.relay.frontend.from_onnx(model), or build a module with "
        "IRModule({'main': func}) or IRModule.from_expr(expr)"
    )
    raise AdapterError(f"pass {name!r} requires an apass.relay.IRModule, got {kind}; {hint}")
