"""The decorator `function_pass` for a user's passes over Relay functions."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, Unpack, cast, overload

from apass.core.context import PassContext
from apass.passes.decorators import function_pass as any_function_pass
from apass.passes.options import PassOptions
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.transform.function_pass import FunctionPass

__all__ = ["function_pass"]

Body: TypeAlias = Callable[[Function, IRModule, PassContext], Function | Awaitable[Function]]
"""The body of a pass over functions."""


class _Decorator(Protocol):
    @overload
    def __call__(self, pass_func: type[Any], /) -> Any: ...
    @overload
    def __call__(self, pass_func: Body, /) -> FunctionPass: ...


@overload
def function_pass(
    pass_func: None = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: list[str] | None = None,
    **options: Unpack[PassOptions],
) -> _Decorator: ...
@overload
def function_pass(
    pass_func: type[Any],
    opt_level: int | None = None,
    name: str | None = None,
    required: list[str] | None = None,
    **options: Unpack[PassOptions],
) -> Any: ...
@overload
def function_pass(
    pass_func: Body,
    opt_level: int | None = None,
    name: str | None = None,
    required: list[str] | None = None,
    **options: Unpack[PassOptions],
) -> FunctionPass: ...
def function_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: list[str] | None = None,
    **options: Unpack[PassOptions],
) -> Any:
    """Create a pass over Relay functions from a function or a class, as TVM.

    It is `apass.function_pass` for Relay: at its end, the pass runs InferType on the module.

    Raises:
        PassDefinitionError: if `opt_level` is missing, or an argument is invalid.

    >>> @function_pass(opt_level=1)
    ... def Identity(func, mod, ctx):
    ...     return func
    >>> Identity.info
    PassInfo(opt_level=1, name='Identity', required=())

    """
    return cast("Any", any_function_pass)(pass_func, opt_level, name, required, base=FunctionPass, **options)
