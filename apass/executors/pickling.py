"""Pickling of passes and functions by import path or by registered name.

In an interactive session, such as a notebook, no other process can import what the cells define. These functions and
classes are sent by value, with cloudpickle.
"""

import io
import os
import pickle
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from pkgutil import resolve_name
from socket import gethostname
from types import FunctionType, MappingProxyType
from typing import Any, Final, cast

from apass.core.analysis import Analysis
from apass.core.pass_factories import known_names
from apass.errors import ApassError, ExecutorError, MissingExtraError, UnknownPassError
from apass.passes.base import ModulePass, Pass
from apass.passes.decorators import function_pass, module_pass, prim_func_pass
from apass.passes.function_pass import FunctionPass, PrimFuncPass
from apass.passes.registry import find_recipe, make_pass, without_extensions
from apass.util.interactive import is_session

__all__ = ["dumps", "loads", "pickled"]

_ADVICE: Final = (
    "define it at the top level of a module, or register it there with register_pass and create it with get_pass"
)

_ADVICE_ANALYSIS: Final = "define it with @apass.analysis at the top level of a module"

_DECORATORS: Final[tuple[tuple[Any, Callable[..., Any]], ...]] = (
    (PrimFuncPass, prim_func_pass),
    (FunctionPass, function_pass),
    (ModulePass, module_pass),
)
"""The decorator for each kind of pass; subclasses precede their base classes."""

_Reduced = tuple[Callable[..., Any], tuple[Any, ...]] | tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""A function and its arguments, and the attributes that are then set."""


def dumps(value: object, label: str) -> bytes:
    """Pickle `value`, which may contain passes, for another process of the program.

    A pass is pickled in one of these forms:

    - its import path
    - its registered name and options
    - its class and fields

    Code is pickled only in an interactive session: that of its own functions and classes.

    Raises:
        ExecutorError: if a part cannot be pickled. The message calls the value `label`.
        MissingExtraError: if the session defines a part, and cloudpickle is not installed.

    """
    try:
        return pickled(value)
    except MissingExtraError as error:
        raise MissingExtraError(f"{label} cannot be sent to another process: {error}") from None
    except ExecutorError as error:
        raise ExecutorError(f"{label} cannot be sent to another process: {error}") from None
    except Exception as error:  # `__reduce__` methods may raise any exception
        reason = f"{type(error).__name__}: {error}"
        raise ExecutorError(f"{label} cannot be sent to another process ({reason}); {_ADVICE}") from error


def pickled(value: object) -> bytes:
    """Pickle `value` as `dumps` does, without a label in messages.

    Raises:
        Exception: any exception of a part that cannot be pickled.

    """
    buffer = io.BytesIO()
    if is_session():
        _session_pickler()(buffer, pickle.HIGHEST_PROTOCOL).dump(_FromSession(value))
    else:
        _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def loads(data: bytes) -> Any:
    """Unpickle `data`, the result of `dumps`.

    Unpickling runs code: call it only on data from the program's own processes.

    Raises:
        ExecutorError: if this process has not a module that the other one has.
        Exception: any other exception from importing a module or creating a pass.

    """
    try:
        return pickle.loads(data)
    except ModuleNotFoundError as error:
        raise ExecutorError(
            f"process {os.getpid()} on {gethostname()} has no module {error.name!r}, which defines what was sent to it "
            f"({error}); install the module on all workers, or start them where it can be imported"
        ) from error


class _Pickler(pickle.Pickler):
    """Pickles passes by reference."""

    def reducer_override(self, obj: Any) -> Any:
        """Return how to recreate `obj`, or NotImplemented for pickle's default."""
        if _RECEIVED and _is_of_main(obj) and obj.__qualname__.isidentifier():
            # A session sent this definition by value. Its answer refers to the definition by name, so that the session
            # finds its own, and unpickles no code.
            setattr(sys.modules["__main__"], obj.__qualname__, obj)
        return _reduce(obj)


_RECEIVED: Final[set[str]] = set()
"""Not empty in a worker that has received definitions of a session."""


class _FromSession:
    """The contents of a message of a session; unpickling returns them."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __reduce__(self) -> _Reduced:
        return _receive, (self._value,)


def _receive(value: object) -> object:
    if not is_session():
        _RECEIVED.add("__main__")
    return value


def _session_pickler() -> Any:
    """Return a class of picklers that send the definitions of the session by value."""
    try:
        return _pickler_over(import_module("cloudpickle").Pickler)
    except ImportError:
        # The user may install it and try again, so this is not cached.
        return _pickler_over(_RefusingPickler)


@cache
def _pickler_over(base: Any) -> Any:
    def reducer_override(self: Any, obj: Any) -> Any:
        reduced = _reduce(obj)
        return base.reducer_override(self, obj) if reduced is NotImplemented else reduced

    return type("_SessionPickler", (base,), {"reducer_override": reducer_override})


class _RefusingPickler(pickle.Pickler):
    """Refuses the definitions of the session, because cloudpickle is missing."""

    def reducer_override(self, obj: Any) -> Any:
        """Raise an error for a definition of the session."""
        if _is_of_main(obj):
            raise MissingExtraError(
                f"this session defines {obj.__qualname__}, which other processes cannot import; "
                "pip install 'apass[notebook]', or define it in a module"
            )
        return NotImplemented


def _is_of_main(obj: Any) -> bool:
    """Return whether `obj` is a function or a class of the main module."""
    return isinstance(obj, FunctionType | type) and obj.__module__ == "__main__"


def _reduce(obj: Any) -> Any:
    """Return how to recreate `obj`, or NotImplemented for the default."""
    value: Any = obj
    if isinstance(obj, Pass):
        return _reduce_pass(value)
    if isinstance(obj, Analysis):
        return _reduce_analysis(value)
    if type(obj) is MappingProxyType:
        return _make_mapping_proxy, (dict(cast("Mapping[Any, Any]", obj)),)
    return NotImplemented


def _make_mapping_proxy(values: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(values)


def _reduce_pass(pass_: Pass[Any]) -> Any:
    # The path is `module:qualname` of the function or class.
    attributes = cast("Mapping[str, Any]", getattr(pass_, "__dict__", {}))
    module, name = attributes.get("__module__"), attributes.get("__qualname__")
    path = f"{module}:{name}" if module and name and "<" not in name else None
    if path is not None and _is_importable_path(path, pass_):
        return resolve_name, (path,)
    reduced = _by_registered_name(pass_) or _by_class_and_options(pass_) or _by_function(pass_)
    if reduced is not None:
        return reduced
    if _is_available(type(pass_)):
        return NotImplemented
    where = f" ({path} is missing or a different object)" if path else ""
    raise ExecutorError(f"pass {pass_.info.name!r} cannot be imported by name{where}; {_ADVICE}")


def _reduce_analysis(analysis: Analysis[Any]) -> Any:
    """Return how to import an analysis, by the name of its function."""
    function: Any = analysis.function
    path = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '<none>')}"
    if is_session() and path.startswith("__main__:"):
        return NotImplemented
    if "<" in path or _resolve(path) is not analysis:
        raise ExecutorError(f"the analysis {analysis.name} cannot be imported by name; {_ADVICE_ANALYSIS}")
    return resolve_name, (path,)


def _is_importable_path(path: str, value: object) -> bool:
    """Return whether another process finds `value` at `path`."""
    return _resolve(path) is value and not (is_session() and path.startswith("__main__:"))


def _is_available(definition: Any) -> bool:
    """Return whether another process can import a function or class, or is sent it."""
    module, name = getattr(definition, "__module__", ""), getattr(definition, "__qualname__", "")
    if is_session() and module == "__main__":
        return True
    return "<" not in name and _resolve(f"{module}:{name}") is definition


def _resolve(path: str) -> object:
    try:
        return resolve_name(path)
    except (ImportError, AttributeError, ValueError):
        return None


def _by_registered_name(pass_: Pass[Any]) -> _Reduced | None:
    name, options = pass_.spec or (pass_.info.name, cast("Mapping[str, object]", {}))
    # A registered pass that exists is in the table already. A wider search would import all provider modules.
    if name not in known_names():
        return None
    try:
        recipe = find_recipe(name)
        if is_session() and _module_of(recipe.factory) == "__main__":
            return None
        passes = list(pass_.children()) if "passes" in recipe.parameters else None
        with without_extensions():
            same = make_pass(name, options, passes)
    except ApassError:
        return None
    if same is not pass_ and not (_is_equivalent(same, pass_) if pass_.spec is None else same == pass_):
        return None
    arguments = (_module_of(recipe.factory), name, dict(options), passes)
    names = {key: value for key, value in vars(pass_).items() if key in ("info", "registered_name", "declared_name")}
    if passes is None or "registered_name" not in names:
        return _make_registered, arguments
    # An extended pipeline: its text is that of the combinator, and its name is another one.
    return _make_registered, arguments, names


def _is_equivalent(pass_: Pass[Any], other: Pass[Any]) -> bool:
    """Return whether two passes made of functions do the same, without calling them."""
    functions = [vars(candidate).get("__wrapped__") for candidate in (pass_, other)]
    return pass_.info == other.info and None not in functions and _same(*functions)


def _same(value: Any, other: Any) -> bool:
    """Return whether two values are equal; functions by code, defaults and closure."""
    if value is other:
        return True
    if not isinstance(value, FunctionType) or not isinstance(other, FunctionType):
        return type(value) is type(other) and bool(value == other)
    if value.__code__ is not other.__code__ or value.__defaults__ != other.__defaults__:
        return False
    cells = zip(value.__closure__ or (), other.__closure__ or (), strict=True)
    return all(_same(cell.cell_contents, other_cell.cell_contents) for cell, other_cell in cells)


def _by_class_and_options(pass_: Pass[Any]) -> _Reduced | None:
    kind, arguments = type(pass_), vars(pass_).get("_given")
    if arguments is None or not _is_available(kind):
        return None
    # A subclass of a decorated class has no spec of its own: the registered name is that of the base class.
    args, options = arguments if pass_.spec is None else ((), pass_.spec[1])
    return _make_of_class, (kind, args, dict(options))


def _by_function(pass_: Pass[Any]) -> _Reduced | None:
    fields = vars(pass_)
    function: object = fields.get("__wrapped__")
    if not _is_importable(function):
        return None
    extra = {key: fields[key] for key in ("timeout", "on_error") if key in fields}
    required = (*pass_.info.required, *fields.get("analyses", ()))
    decorator = next(make for kind, make in _DECORATORS if isinstance(pass_, kind))
    return _make_of_function, (decorator, function, pass_.info.opt_level, pass_.info.name, required, extra)


def _is_importable(function: Any) -> bool:
    """Return whether a function, or the function of a partial, can be imported."""
    while isinstance(function, partial):
        function = function.func
    return function is not None and _is_available(function)


def _module_of(factory: Any) -> str:
    """Return the module whose import registers a pass, as far as the factory shows it."""
    while isinstance(factory, partial):
        factory = factory.args[0] if factory.args else factory.func
    return str(factory.__module__)


def _make_registered(module: str, name: str, options: Mapping[str, object], passes: list[Pass[Any]] | None) -> Any:
    import_module(module)
    try:
        with without_extensions():
            return make_pass(name, options, passes)
    except UnknownPassError as error:
        raise ExecutorError(f"{error}; importing {module} in a worker did not register it") from None


def _make_of_function(
    decorator: Callable[..., Any],
    function: Callable[..., Any],
    opt_level: int,
    name: str,
    required: tuple[Any, ...],
    extra: Mapping[str, Any],
) -> Any:
    return decorator(function, opt_level, name, required, **extra)


def _make_of_class(kind: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    return kind(*args, **options)
