"""`module_pass` and `function_pass`: passes over Relay alone; what the second leaves has types, as in TVM."""

from collections.abc import Awaitable, Callable, Iterable
from functools import wraps
from typing import Literal, TypeAlias, TypeVar

from apass.core.context import PassContext
from apass.errors import AdapterError
from apass.passes import decorators
from apass.passes.base import FunctionPass, ModulePass, Pass
from apass.relay.errors import TypeInferenceError
from apass.relay.expr import Expr
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.type_inference.infer import ensure_typed

__all__ = ["function_pass", "module_pass", "typed_if_possible"]

Body: TypeAlias = Callable[[Function, IRModule, PassContext], Function]
"""The work of a pass on one function."""
ModuleBody: TypeAlias = Callable[[IRModule, PassContext], IRModule]
"""The work of a pass on a module."""
PassT = TypeVar("PassT", bound=Pass[IRModule])


def module_pass(body: ModuleBody, *, opt_level: int, name: str) -> ModulePass[IRModule]:
    """Return a pass over Relay modules; AdapterError, a TypeError, if it is run on anything else."""
    made: ModulePass[IRModule] = decorators.module_pass(body, opt_level=opt_level, name=name, cacheable=True)
    return _over_relay(made)


def function_pass(
    body: Body, *, opt_level: int, name: str, required: Iterable[str] = (), cacheable: bool = True
) -> FunctionPass[IRModule, Function]:
    """Return a pass that leaves every function with types; one that has none, as it is ill-typed, stays without.

    Its result may be kept for a module and options, unless it depends on more than these.

    Run on anything but a Relay module, it raises AdapterError, a TypeError.
    """

    @wraps(body)
    def typed(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return typed_if_possible(body(func, mod, ctx), mod)

    kept: Literal["module", False] = "module" if cacheable else False
    made = decorators.function_pass(typed, opt_level=opt_level, name=name, required=required, cacheable=kept)
    return _over_relay(made)


def typed_if_possible(func: Function, mod: IRModule) -> Function:
    """Return a function with types; itself if it has them or cannot have any, which is for InferType to tell."""
    try:
        return ensure_typed(func, mod)
    except TypeInferenceError:
        return func


def _over_relay(pass_: PassT) -> PassT:
    """Let a pass look first at what it is given."""
    work, name = pass_.transform, pass_.info.name

    def transform(mod: object, ctx: PassContext) -> IRModule | Awaitable[IRModule]:
        if not isinstance(mod, IRModule):
            raise AdapterError(_other_ir(name, mod))
        return work(mod, ctx)

    # In the method's place: the runner calls it on the pass, and the module may be none that an adapter knows.
    vars(pass_)["transform"] = transform
    return pass_


def _other_ir(name: str, given: object) -> str:
    if isinstance(given, Expr):
        return f"pass {name!r} works on an apass.relay.IRModule, not on {given!r}; give IRModule.from_expr(expr)"
    kind = f"{type(given).__module__}.{type(given).__qualname__}".removeprefix("builtins.")
    return (
        f"pass {name!r} works on an apass.relay.IRModule, not on {kind}; translate an ONNX model with "
        "apass.relay.frontend.from_onnx(model) (on the command line: apass opt --to relay), or build a module with "
        "IRModule({'main': func}) or IRModule.from_expr(expr)"
    )
