"""`function_pass`: function passes whose results have types, as TVM's Relay ends each with InferType."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TypeAlias

from apass import decorators
from apass.context import PassContext
from apass.passes import FunctionPass
from apass.relay.errors import TypeInferenceError
from apass.relay.function import Function
from apass.relay.module import IRModule
from apass.relay.type_infer import ensure_typed

__all__ = ["function_pass", "typed_if_possible"]

Body: TypeAlias = Callable[[Function, IRModule, PassContext], Function]
"""The work of a pass on one function."""


def function_pass(
    body: Body, *, opt_level: int, name: str, required: Iterable[str] = ()
) -> FunctionPass[IRModule, Function]:
    """Return a pass that leaves every function with types; one that has none, as it is ill-typed, stays without."""

    @wraps(body)
    def typed(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return typed_if_possible(body(func, mod, ctx), mod)

    return decorators.function_pass(typed, opt_level=opt_level, name=name, required=required, cacheable="module")


def typed_if_possible(func: Function, mod: IRModule) -> Function:
    """Return a function with types; itself if it has them or cannot have any, which is for InferType to tell."""
    try:
        return ensure_typed(func, mod)
    except TypeInferenceError:
        return func
