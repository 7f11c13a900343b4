"""`module_pass`, `function_pass` and `prim_func_pass`: passes from functions and from classes, in TVM's forms."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol, Unpack, cast, overload

from apass.core.adapter import FuncT, ModT
from apass.core.analysis import Analysis
from apass.core.analysis_manager import with_analyses
from apass.core.context import PassContext
from apass.core.executor import ExecutorChoice, check_executor
from apass.core.info import PassInfo
from apass.errors import PassDefinitionError, did_you_mean
from apass.guard import OnError
from apass.passes.base import FunctionPass, ModulePass, Pass, PrimFuncPass
from apass.passes.options import Promises, promised
from apass.util.checks import is_seconds

__all__ = ["FunctionPassOptions", "Promises", "function_pass", "module_pass", "prim_func_pass"]

_ModuleBody = Callable[[ModT, PassContext], ModT | Awaitable[ModT]]
_FunctionBody = Callable[[FuncT, ModT, PassContext], FuncT | Awaitable[FuncT]]


Requirements = Iterable[str | Analysis[Any]] | None
"""What a pass requires: passes by name, and analyses."""


class FunctionPassOptions(Promises, total=False):
    """How the bodies of a function pass are run, and what it promises about its result."""

    timeout: float | None
    """Seconds that one function may take before it fails with PassTimeoutError; None, the default, is no limit."""
    on_error: OnError
    """What to do when a body fails: `"raise"` its error, the default; `"keep"` the function as it was, with a warning
    in `ctx.diag_ctx`; or call a fallback `(func, mod, ctx, error) -> func`, plain or async, with a note there."""
    executor: ExecutorChoice
    """Where a plain body runs: `"inline"` in the loop's thread, `"thread"`, `"process"`, `"interpreter"`, or an
    `Executor`; None, the default, leaves it to the context."""


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
    **promises: Unpack[Promises],
) -> _ModulePassDecorator: ...
@overload
def module_pass(
    pass_func: type[Any],
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    **promises: Unpack[Promises],
) -> Any: ...
@overload
def module_pass(
    pass_func: _ModuleBody[ModT],
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    **promises: Unpack[Promises],
) -> ModulePass[ModT]: ...
def module_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    **promises: Unpack[Promises],
) -> Any:
    """Make a module pass of a function `(mod, ctx) -> mod`, or of a class with a method `transform_module(mod, ctx)`.

    Either may be `async def`. As a decorator with arguments, or called with the function first. A class becomes a class
    of passes, with the constructor of its own; the attributes of its instance are reachable on the pass.

    Parameters:
        pass_func: the function or class; left out in a decorator.
        opt_level: the lowest `PassContext.opt_level` at which a Sequential runs the pass; must be given.
        name: the pass's name; that of the function or class by default.
        required: names of registered passes that a Sequential runs before it; and analyses, whose results are then
            there for `ctx.got`.
        **promises: by keyword `preserves`, `cacheable`, `version` and `config_keys`; see `Promises`.

    Raises:
        PassDefinitionError: if `opt_level` is missing, or `pass_func` cannot be the work of a pass.

    >>> @module_pass(opt_level=2)
    ... async def DropEmpty(mod, ctx):
    ...     return {name: func for name, func in mod.items() if func}
    >>> DropEmpty.info
    PassInfo(opt_level=2, name='DropEmpty', required=())

    """
    return _decorate("module_pass", ModulePass, pass_func, opt_level, name, required, promised(promises))


@overload
def function_pass(
    pass_func: None = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    **options: Unpack[FunctionPassOptions],
) -> _FunctionPassDecorator: ...
@overload
def function_pass(
    pass_func: type[Any],
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    **options: Unpack[FunctionPassOptions],
) -> Any: ...
@overload
def function_pass(
    pass_func: _FunctionBody[FuncT, ModT],
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    **options: Unpack[FunctionPassOptions],
) -> FunctionPass[ModT, FuncT]: ...
def function_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    **options: Unpack[FunctionPassOptions],
) -> Any:
    """Make a function pass of a function `(func, mod, ctx) -> func`, or of a class with `transform_function`.

    All forms are those of `module_pass`. See `FunctionPass` for how it runs.

    Parameters:
        pass_func: the function or class; left out in a decorator.
        opt_level: the lowest `PassContext.opt_level` at which a Sequential runs the pass; must be given.
        name: the pass's name; that of the function or class by default.
        required: names of registered passes that a Sequential runs before it; and analyses, whose results are then
            there for `ctx.got`.
        **options: by keyword `timeout`, `on_error` and `executor`, see `FunctionPassOptions`; and `preserves`,
            `cacheable`, `version` and `config_keys`, see `Promises`.

    Raises:
        PassDefinitionError: if `opt_level` is missing, or an argument cannot be what it is for.

    """
    extra = _function_pass_attributes("function_pass", options)
    return _decorate("function_pass", FunctionPass, pass_func, opt_level, name, required, extra)


@overload
def prim_func_pass(
    pass_func: None = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    **options: Unpack[FunctionPassOptions],
) -> _PrimFuncPassDecorator: ...
@overload
def prim_func_pass(
    pass_func: type[Any],
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    **options: Unpack[FunctionPassOptions],
) -> Any: ...
@overload
def prim_func_pass(
    pass_func: _FunctionBody[FuncT, ModT],
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    **options: Unpack[FunctionPassOptions],
) -> PrimFuncPass[ModT, FuncT]: ...
def prim_func_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Requirements = None,
    **options: Unpack[FunctionPassOptions],
) -> Any:
    """Make a pass over the functions of kind `"prim_func"`; in all else as `function_pass`."""
    extra = _function_pass_attributes("prim_func_pass", options)
    return _decorate("prim_func_pass", PrimFuncPass, pass_func, opt_level, name, required, extra)


def _function_pass_attributes(decorator: str, options: FunctionPassOptions) -> dict[str, Any]:
    guards = _guards(options.pop("timeout", None), options.pop("on_error", "raise"))
    return guards | _place(decorator, options.pop("executor", None)) | promised(options, FunctionPassOptions)


def _guards(timeout: float | None, on_error: OnError) -> dict[str, Any]:
    if timeout is not None and not is_seconds(timeout):
        raise PassDefinitionError(f"timeout must be a number of seconds above 0, or None; not {timeout!r}")
    if on_error not in ("raise", "keep") and not callable(on_error):
        choices = "'raise', 'keep' or a function (func, mod, ctx, error) -> func"
        raise PassDefinitionError(f"on_error must be {choices}, not {on_error!r}")
    return {"timeout": timeout, "on_error": on_error}


def _place(decorator: str, executor: ExecutorChoice) -> dict[str, Any]:
    try:
        return {"executor": check_executor(decorator, executor)}
    except (TypeError, ValueError) as error:
        raise PassDefinitionError(str(error)) from None


def _decorate(
    decorator: str,
    base: Any,
    pass_func: Any,
    opt_level: int | None,
    name: str | None,
    required: Requirements,
    extra: dict[str, Any],
) -> Any:
    if isinstance(required, Analysis):
        raise PassDefinitionError(f"required must be a list of names and analyses, not {required!r}; write [...]")
    if not isinstance(required, str) and required is not None:
        if not isinstance(required, Iterable):
            raise PassDefinitionError(f"required must be a list of names and analyses, not {required!r}")
        needed = tuple(required)
        required = [one for one in needed if not isinstance(one, Analysis)]
        extra = {**extra, "analyses": tuple(one for one in needed if isinstance(one, Analysis))}
    if opt_level is None:
        raise PassDefinitionError(f"please provide opt_level: {decorator}(opt_level=...)")
    if isinstance(pass_func, int) or (pass_func is not None and not callable(pass_func)):
        raise PassDefinitionError(f"{decorator} takes a function or a class, not {pass_func!r}; give opt_level by name")

    def make(target: Any) -> Any:
        if not callable(target):
            raise PassDefinitionError(f"{decorator} takes a function or a class, not {target!r}")
        if isinstance(target, Pass):
            raise PassDefinitionError(f"{decorator} takes a function or a class, and {target!r} is a pass already")
        own_name = _name_of(target)
        info = PassInfo(opt_level, name or own_name, cast("Iterable[str] | None", required))
        method = "transform_module" if base is ModulePass else "transform_function"
        work = getattr(target, method, None) if inspect.isclass(target) else target
        if inspect.isgeneratorfunction(work) or inspect.isasyncgenfunction(work):
            raise PassDefinitionError(f"the work of pass {info.name!r} must return its result, and {work!r} yields")
        if inspect.isclass(target):
            return _class_of_passes(decorator, base, target, method, info, extra)
        return _pass_of(base, target, method, info, extra)

    return make if pass_func is None else make(pass_func)


def _name_of(target: Any) -> str:
    while type(target) is functools.partial:
        target = target.func
    return str(getattr(target, "__name__", type(target).__name__))


def _pass_of(base: Any, function: Any, method: str, info: PassInfo, extra: dict[str, Any]) -> Any:
    """Return a pass whose work is `function`."""

    def work(_self: Any, *given: Any) -> Any:
        return function(*given)

    members: dict[str, Any] = {method: work, "_options": _options_of(function), "__module__": base.__module__}
    made: Any = type(base.__name__, (base,), members)()
    functools.update_wrapper(made, function, updated=())
    # Its attributes are reachable on the pass, but where the pass has one of that name.
    own: dict[str, Any] = getattr(function, "__dict__", {})
    _attributes(made).update({key: value for key, value in own.items() if not hasattr(made, key)})
    if base is ModulePass and extra.get("analyses"):
        function = with_analyses(function, extra["analyses"])
    # The function itself in the method's place: no frame between the runner and the work.
    _attributes(made).update(extra, info=info, **{_slot(base): function})
    return made


def _class_of_passes(decorator: str, base: Any, target: Any, method: str, info: PassInfo, extra: dict[str, Any]) -> Any:
    """Return a class of passes that hold an instance of `target` and do its work."""
    if not hasattr(target, method):
        near = did_you_mean(method, [name for name in dir(target) if not name.startswith("_")])
        raise PassDefinitionError(f"{decorator} needs a method {method!r} on class {target.__name__}{near}")

    def __init_subclass__(cls: Any, /, **kwargs: Any) -> None:  # noqa: N807  becomes the method of that name
        cast("Any", super(made, cls)).__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = _noting_what_is_given(cls.__init__)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807  becomes the method of that name
        _attributes(self).setdefault("_given", (args, kwargs))
        _attributes(self)["_instance"] = instance = target(*args, **kwargs)
        if type(self) is made:
            _attributes(self)["spec"] = _spec_of(info.name, target, args, kwargs)
        kind: Any = self.__class__
        if getattr(kind, method) is not work or kind.transform is not base.transform:
            return  # a subclass does the work in its own way
        function = getattr(instance, method)
        if base is ModulePass and extra.get("analyses"):
            function = with_analyses(function, extra["analyses"])
        _attributes(self)[_slot(base)] = function

    def __getattr__(self: Any, name: str) -> Any:  # noqa: N807  becomes the method of that name
        if name.startswith("__") or "_instance" not in _attributes(self):
            raise AttributeError(name)
        return getattr(self._instance, name)

    functools.update_wrapper(__init__, target.__init__)

    def work(self: Any, *given: Any) -> Any:
        return getattr(self._instance, method)(*given)

    members: dict[str, Any] = {
        # A fallback is no method of the class.
        **{key: staticmethod(value) if callable(value) else value for key, value in extra.items()},
        "info": info,
        "__init_subclass__": classmethod(__init_subclass__),
        "__init__": __init__,
        "_options": _given_options,
        "__getattr__": __getattr__,
        "__doc__": target.__doc__,
        "__module__": target.__module__,
        "__qualname__": target.__qualname__,
        method: work,
    }
    made: Any = type(base)(target.__name__, (base,), members)
    return made


def _noting_what_is_given(init: Callable[..., None]) -> Callable[..., None]:
    """Return the constructor of a subclass, which may take other arguments, so that they are known of the pass."""

    @functools.wraps(init)
    def noting(self: Any, *args: Any, **kwargs: Any) -> None:
        _attributes(self).setdefault("_given", (args, kwargs))
        init(self, *args, **kwargs)

    return noting


def _options_of(function: Any) -> Callable[[object], object]:
    """Return the method that tells the options of a function's pass."""
    return lambda _self: _held_by(function)


def _held_by(function: Any) -> object:
    """Return what tells a callable from others of its kind; nothing for a function, which holds nothing of its own."""
    if type(function) is functools.partial:
        return (function.func, _held_by(function.func), function.args, function.keywords)
    if inspect.ismethod(function):
        return (function.__func__, _held_by(function.__self__))
    if inspect.isroutine(function) or inspect.isclass(function):
        return function if inspect.isclass(function) else None
    kind: Any = function.__class__
    return function if hasattr(function, "__fingerprint__") else (kind, object.__getstate__(function))


def _given_options(self: Any) -> object:
    """Return the options of a class's pass: what it was made with."""
    return self._given


def _attributes(pass_: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", pass_.__dict__)


def _slot(base: Any) -> str:
    return "transform" if base is ModulePass else "transform_function"


def _spec_of(name: str, target: type, args: Any, kwargs: Any) -> tuple[str, dict[str, object]] | None:
    """Return name and options of a pass as it was made, where its class tells the names of the arguments."""
    try:
        signature = inspect.signature(target)
        given = dict(signature.bind(*args, **kwargs).arguments)
    except (ValueError, TypeError):
        return None
    kinds = {key: one.kind for key, one in signature.parameters.items()}
    if any(kind is inspect.Parameter.VAR_POSITIONAL and given.get(key) for key, kind in kinds.items()):
        return None
    more = {key for key, kind in kinds.items() if kind is inspect.Parameter.VAR_KEYWORD}
    for key in more & given.keys():
        given.update(given.pop(key))
    return (name, given)
