"""Decorators for Relay passes; function passes keep functions typed."""

from collections.abc import Awaitable, Callable, Iterable
from functools import wraps
from typing import Literal, TypeAlias, TypeVar

from apass.core.context import PassContext
from apass.errors import AdapterError
from apass.passes.base import ModulePass, Pass
from apass.passes.decorators import function_pass as any_function_pass
from apass.passes.decorators import module_pass as any_module_pass
from apass.passes.function_pass import FunctionPass
from apass.relay.errors import TypeInferenceError
from apass.relay.ir.expr import Expr
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.type_inference.infer import ensure_typed

__all__ = ["function_pass", "module_pass", "typed_if_possible"]

Body: TypeAlias = Callable[[Function, IRModule, PassContext], Function]
"""The body of a pass over functions."""
ModuleBody: TypeAlias = Callable[[IRModule, PassContext], IRModule]
"""The body of a pass over a module."""
PassT = TypeVar("PassT", bound=Pass[IRModule])


def module_pass(body: ModuleBody, *, opt_level: int, name: str) -> ModulePass[IRModule]:
    """Return a pass over Relay modules.

    On any other input the pass raises AdapterError, a TypeError.
    """
    result: ModulePass[IRModule] = any_module_pass(body, opt_level=opt_level, name=name, cacheable=True)
    return _over_relay(result)


def function_pass(
    body: Body, *, opt_level: int, name: str, required: Iterable[str] = (), cacheable: bool = True
) -> FunctionPass[IRModule, Function]:
    """Return a pass that leaves every function typed, as in TVM.

    An ill-typed function stays untyped. The result is cached by module and options if `cacheable` is true; the body
    then must not depend on anything else.

    On any input but a Relay module the pass raises AdapterError, a TypeError.
    """

    @wraps(body)
    def typed(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return typed_if_possible(body(func, mod, ctx), mod)

    scope: Literal["module", False] = "module" if cacheable else False
    result = any_function_pass(typed, opt_level=opt_level, name=name, required=required, cacheable=scope)
    return _over_relay(result)


def typed_if_possible(func: Function, mod: IRModule) -> Function:
    """Return the function typed; itself if it is typed already or is ill-typed.

    InferType reports the errors of an ill-typed function.
    """
    try:
        return ensure_typed(func, mod)
    except TypeInferenceError:
        return func


def _over_relay(pass_: PassT) -> PassT:
    """Make a pass check that its input is a Relay module."""
    work, name = pass_.transform, pass_.info.name

    def transform(mod: object, ctx: PassContext) -> IRModule | Awaitable[IRModule]:
        if not isinstance(mod, IRModule):
            raise AdapterError(_wrong_input(name, mod))
        return work(mod, ctx)

    # Replace the method on the instance: the runner calls it, and no adapter may know the input.
    vars(pass_)["transform"] = transform
    pass_.module_type = IRModule
    return pass_


def _wrong_input(name: str, value: object) -> str:
    if isinstance(value, Expr):
        return f"pass {name!r} requires an apass.relay.IRModule, got {value!r}; use IRModule.from_expr(expr)"
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    return (
        f"pass {name!r} requires an apass.relay.IRModule, got {kind}; translate an ONNX model with "
        "apass.relay.frontend.from_onnx(model) (the command line does so if no pass of ONNX comes first), or build a "
        "module with IRModule({'main': func}) or IRModule.from_expr(expr)"
    )
