"""The decorators `module_pass`, `function_pass` and `prim_func_pass`.

They have the forms of TVM's.
"""

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, Unpack, overload

from apass.core.adapter import FuncT, ModT
from apass.core.context import PassContext
from apass.core.pass_info import PassInfo
from apass.errors import PassDefinitionError
from apass.passes.base import ModulePass, Pass
from apass.passes.class_definition import PARAMETERS, check_signature
from apass.passes.from_callable import pass_class_from_class, pass_from_function
from apass.passes.function_pass import FunctionPass, PrimFuncPass
from apass.passes.options import PassOptions, Requirements, check_pass_options, split_requirements

__all__ = ["PassOptions", "function_pass", "module_pass", "prim_func_pass"]

_ModuleBody = Callable[[ModT, PassContext], ModT | Awaitable[ModT]]
_FunctionBody = Callable[[FuncT, ModT, PassContext], FuncT | Awaitable[FuncT]]


# A decorated class is `Any`. A Protocol with its constructor could not be a base class, and the passes would lack the
# attributes of its instance.
class _ModulePassDecorator(Protocol):
    @overload
    def __call__(self, pass_func: type[Any], /) -> Any: ...
    @overload
    def __call__(self, pass_func: _ModuleBody[ModT], /) -> ModulePass[ModT]: ...


class _FunctionPassDecorator(Protocol):
    @overload
    def __call__(self, pass_func: type[Any], /) -> Any: ...
    @overload
    def __call__(self, pass_func: _FunctionBody[FuncT, ModT], /) -> FunctionPass[ModT, FuncT]: ...


class _PrimFuncPassDecorator(Protocol):
    @overload
    def __call__(self, pass_func: type[Any], /) -> Any: ...
    @overload
    def __call__(self, pass_func: _FunctionBody[FuncT, ModT], /) -> PrimFuncPass[ModT, FuncT]: ...


@overload
def module_pass(
    pass_func: None = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    *,
    base: Callable[..., ModulePass[Any]] = ModulePass,
    **options: Unpack[PassOptions],
) -> _ModulePassDecorator: ...
@overload
def module_pass(
    pass_func: type[Any],
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    *,
    base: Callable[..., ModulePass[Any]] = ModulePass,
    **options: Unpack[PassOptions],
) -> Any: ...
@overload
def module_pass(
    pass_func: _ModuleBody[ModT],
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    *,
    base: Callable[..., ModulePass[Any]] = ModulePass,
    **options: Unpack[PassOptions],
) -> ModulePass[ModT]: ...
def module_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    *,
    base: Callable[..., ModulePass[Any]] = ModulePass,
    **options: Unpack[PassOptions],
) -> Any:
    """Create a module pass from a function or a class.

    The function is `(mod, ctx) -> mod`, the class has a method `transform_module(mod, ctx)`. Either may be
    `async def`. Use it as a decorator with arguments, or call it with the function as the first argument. A class
    becomes a class of passes with the same constructor; the attributes of its instance are available on the pass. It is
    `Any` for pyright, and stays the plain class for mypy: derive from `ModulePass` to have the types of passes.

    Parameters:
        pass_func: the function or class; omitted in a decorator.
        opt_level: the lowest `PassContext.opt_level` at which a Sequential runs the pass; mandatory.
        name: the name of the pass, by default of the function or class.
        required: names of registered passes that a Sequential runs before it, and analyses whose results are then
            available to `ctx.got`.
        base: a class derived from the default one, for passes of one IR that share work around their bodies.
        **options: by keyword `timeout`, `on_error`, `executor`, `preserves`, `cacheable`, `version`, `config_keys`,
            `requires`, `ensures`, `idempotent`, `native`, `runs_after`, `runs_before` and `open`; see
            `PassOptions`.

    Raises:
        PassDefinitionError: if `opt_level` is missing, or `pass_func` is not a valid function or class.

    >>> @module_pass(opt_level=2)
    ... async def DropEmpty(mod, ctx):
    ...     return {name: func for name, func in mod.items() if func}
    >>> DropEmpty.info
    PassInfo(opt_level=2, name='DropEmpty', required=())

    """
    return _decorate("module_pass", ModulePass, base, pass_func, opt_level, name, required, options)


@overload
def function_pass(
    pass_func: None = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    *,
    base: Callable[..., FunctionPass[Any, Any]] = FunctionPass,
    **options: Unpack[PassOptions],
) -> _FunctionPassDecorator: ...
@overload
def function_pass(
    pass_func: type[Any],
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    *,
    base: Callable[..., FunctionPass[Any, Any]] = FunctionPass,
    **options: Unpack[PassOptions],
) -> Any: ...
@overload
def function_pass(
    pass_func: _FunctionBody[FuncT, ModT],
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    *,
    base: Callable[..., FunctionPass[Any, Any]] = FunctionPass,
    **options: Unpack[PassOptions],
) -> FunctionPass[ModT, FuncT]: ...
def function_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    *,
    base: Callable[..., FunctionPass[Any, Any]] = FunctionPass,
    **options: Unpack[PassOptions],
) -> Any:
    """Create a function pass from a function or a class.

    The function is `(func, mod, ctx) -> func`, the class has a method `transform_function(func, mod, ctx)`. The forms
    are the same as for `module_pass`. See `FunctionPass` for how it runs.

    Parameters:
        pass_func: the function or class; omitted in a decorator.
        opt_level: the lowest `PassContext.opt_level` at which a Sequential runs the pass; mandatory.
        name: the name of the pass, by default of the function or class.
        required: names of registered passes that a Sequential runs before it, and analyses whose results are then
            available to `ctx.got`.
        base: a class derived from the default one, for passes of one IR that share work around their bodies.
        **options: by keyword `timeout`, `on_error`, `executor`, `preserves`, `cacheable`, `version`, `config_keys`,
            `requires`, `ensures`, `idempotent`, `native`, `runs_after`, `runs_before` and `open`; see
            `PassOptions`.

    Raises:
        PassDefinitionError: if `opt_level` is missing, or an argument is invalid.

    """
    return _decorate("function_pass", FunctionPass, base, pass_func, opt_level, name, required, options)


@overload
def prim_func_pass(
    pass_func: None = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    **options: Unpack[PassOptions],
) -> _PrimFuncPassDecorator: ...
@overload
def prim_func_pass(
    pass_func: type[Any],
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    **options: Unpack[PassOptions],
) -> Any: ...
@overload
def prim_func_pass(
    pass_func: _FunctionBody[FuncT, ModT],
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    **options: Unpack[PassOptions],
) -> PrimFuncPass[ModT, FuncT]: ...
def prim_func_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    **options: Unpack[PassOptions],
) -> Any:
    """Create a pass over functions of kind `"prim_func"`; see `function_pass`."""
    return _decorate("prim_func_pass", PrimFuncPass, PrimFuncPass, pass_func, opt_level, name, required, options)


def _decorate(
    decorator: str,
    kind: Any,
    base: Any,
    pass_func: Any,
    opt_level: int | None,
    name: str | None,
    required: Requirements,
    options: PassOptions,
) -> Any:
    extra = check_pass_options(decorator, options)
    names, analyses = split_requirements(required)
    if analyses:
        extra["analyses"] = analyses
    if not inspect.isclass(base) or not issubclass(base, kind):
        raise PassDefinitionError(f"base of {decorator} must be a class derived from {kind.__name__}, got {base!r}")
    if opt_level is None:
        raise PassDefinitionError(f"please provide opt_level: {decorator}(opt_level=...)")
    # An int is a likely mistake: `@module_pass(2)` passes the level as the function.
    if isinstance(pass_func, int) or (pass_func is not None and not callable(pass_func)):
        message = f"{decorator} takes a function or a class, got {pass_func!r}; pass opt_level by keyword"
        raise PassDefinitionError(message)

    def make(target: Any) -> Any:
        if not callable(target):
            raise PassDefinitionError(f"{decorator} takes a function or a class, got {target!r}")
        if isinstance(target, Pass):
            raise PassDefinitionError(f"{decorator} takes a function or a class, but {target!r} is already a pass")
        info = PassInfo(opt_level, name or _name_of(target), names)
        method = "transform_module" if kind is ModulePass else "transform_function"
        if not inspect.isclass(target):
            check_signature(target, PARAMETERS[method], f"the function of pass {info.name!r}")
            return pass_from_function(base, target, method, info, extra)
        return pass_class_from_class(decorator, base, target, method, info, extra)

    return make if pass_func is None else make(pass_func)


def _name_of(target: Any) -> str:
    while type(target) is functools.partial:
        target = target.func
    return str(getattr(target, "__name__", type(target).__name__))
