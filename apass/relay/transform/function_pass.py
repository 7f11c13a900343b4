"""`FunctionPass`, the base of passes over Relay functions, and `function_pass`.

Such a pass runs InferType at its end, as in TVM, so that the functions that it leaves have types.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Final, Literal, TypeAlias

from apass.core.context import PassContext
from apass.passes.decorators import function_pass as any_function_pass
from apass.passes.function_pass import FunctionPass as AnyFunctionPass
from apass.relay.errors import TypeInferenceError
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.transform.infer_type import InferType
from apass.relay.transform.support.module_pass import check_is_module
from apass.relay.type_inference.infer import ensure_typed

__all__ = ["FunctionPass", "function_pass", "typed_if_possible"]

Body: TypeAlias = Callable[[Function, IRModule, PassContext], Function]
"""The body of a pass over functions."""

_INFER_TYPE: Final = InferType()


class FunctionPass(AnyFunctionPass[IRModule, Function]):
    """A pass that transforms Relay functions; TVM's `relay.FunctionPass`.

    At the end it runs InferType, through the hooks of the context's instruments. Functions with a true attribute
    `SkipOptimization`, or with an attribute `Compiler`, stay as they are.

    Raises:
        AdapterError: if the input is not a Relay module; it is a TypeError.
        TypeInferenceError: if the result is ill-typed.

    """

    module_type = IRModule
    """The class of modules that the pass takes."""

    async def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Transform the functions concurrently, and infer the types of the result."""
        check_is_module(self.info.name, mod)
        return await _INFER_TYPE(await super().transform(mod, ctx))


def function_pass(
    body: Body, *, opt_level: int, name: str, required: Iterable[str] = (), cacheable: bool = True
) -> AnyFunctionPass[IRModule, Function]:
    """Return a pass over Relay functions whose bodies also infer types.

    The bodies share this work with others that run at the same time; InferType at the end then finds nothing to do.
    The result is cached by module and options if `cacheable` is true; the body then must not depend on anything else.
    """

    @wraps(body)
    def typed(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return typed_if_possible(body(func, mod, ctx), mod)

    scope: Literal["module", False] = "module" if cacheable else False
    return any_function_pass(
        typed, opt_level=opt_level, name=name, required=required, cacheable=scope, base=FunctionPass
    )


def typed_if_possible(func: Function, mod: IRModule) -> Function:
    """Return the function typed; itself if it is typed already or is ill-typed.

    InferType reports the errors of an ill-typed function.
    """
    try:
        return ensure_typed(func, mod)
    except TypeInferenceError:
        return func
