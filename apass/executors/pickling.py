"""Passes and functions as bytes: by where they can be imported, or by registered name and options; never their code."""

import io
import pickle
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pkgutil import resolve_name
from types import FunctionType, MappingProxyType
from typing import Any, Final, cast

from apass.core.analysis import Analysis
from apass.core.pass_factories import known_names
from apass.errors import ApassError, ExecutorError, UnknownPassError
from apass.passes.base import FunctionPass, ModulePass, Pass, PrimFuncPass
from apass.passes.decorators import function_pass, module_pass, prim_func_pass
from apass.passes.registry import find_recipe, make_pass

__all__ = ["dumps", "loads"]

_ADVICE: Final = (
    "define it at the top level of a module, or register it there with register_pass and make it with get_pass"
)

_ADVICE_ANALYSIS: Final = "define it by @apass.analysis at the top level of a module"

_DECORATORS: Final[tuple[tuple[Any, Callable[..., Any]], ...]] = (
    (PrimFuncPass, prim_func_pass),
    (FunctionPass, function_pass),
    (ModulePass, module_pass),
)
"""What makes a pass of a function, the special kind of pass before the general one."""

_Reduced = tuple[Callable[..., Any], tuple[Any, ...]]


def dumps(value: object, what: str) -> bytes:
    """Return `value`, which may hold passes anywhere, as bytes for another process of the same program.

    A pass goes as the place that it can be imported from, as its registered name and options, or as its class and
    fields.

    Raises:
        ExecutorError: if something in it cannot go; the message calls it `what`.

    """
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    except ExecutorError as error:
        raise ExecutorError(f"{what} cannot go to another process: {error}") from None
    except Exception as error:  # what pickling calls may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise ExecutorError(f"{what} cannot go to another process ({reason}); {_ADVICE}") from error
    return buffer.getvalue()


def loads(data: bytes) -> Any:
    """Return what `dumps` made `data` from. Runs code, as every pickle does: only for what a process of one's own sent.

    Raises:
        Exception: what importing a module, or making a pass, raises.

    """
    return pickle.loads(data)


class _Pickler(pickle.Pickler):
    """Pickles passes by reference."""

    def reducer_override(self, obj: Any) -> Any:
        """Return how `obj` is made again; NotImplemented for the usual way."""
        given: Any = obj
        if isinstance(obj, Pass):
            return _reduce_pass(given)
        if isinstance(obj, Analysis):
            return _reduce_analysis(given)
        if type(obj) is MappingProxyType:
            return _frozen, (dict(cast("Mapping[Any, Any]", obj)),)
        return NotImplemented


def _frozen(values: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(values)


def _reduce_pass(pass_: Pass[Any]) -> Any:
    place = _place_of(pass_)
    if place is not None and _found_at(place) is pass_:
        return resolve_name, (place,)
    reduced = _by_registered_name(pass_) or _by_class_and_options(pass_) or _by_function(pass_)
    if reduced is not None:
        return reduced
    kind = type(pass_)
    if _found_at(f"{kind.__module__}:{kind.__qualname__}") is kind:
        return NotImplemented
    where = f" ({place} is something else, or nothing)" if place else ""
    raise ExecutorError(f"pass {pass_.info.name!r} is not to be found by name{where}; {_ADVICE}")


def _reduce_analysis(analysis: Analysis[Any]) -> _Reduced:
    """Return how an analysis is found again: as what its function's name stands for."""
    function: Any = analysis.function
    place = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '<none>')}"
    if "<" in place or _found_at(place) is not analysis:
        raise ExecutorError(f"the analysis {analysis.name} is not to be found by name; {_ADVICE_ANALYSIS}")
    return resolve_name, (place,)


def _place_of(thing: Any) -> str | None:
    """Return where the function or class is from that a pass was made of, as `module:qualname`."""
    own = cast("Mapping[str, Any]", getattr(thing, "__dict__", {}))
    module, name = own.get("__module__"), own.get("__qualname__")
    return f"{module}:{name}" if module and name and "<" not in name else None


def _found_at(place: str) -> object:
    try:
        return resolve_name(place)
    except (ImportError, AttributeError, ValueError):
        return None


def _by_registered_name(pass_: Pass[Any]) -> _Reduced | None:
    name, options = pass_.spec or (pass_.info.name, cast("Mapping[str, object]", {}))
    # Whoever made it has registered it by now; to look further would import every module that provides some.
    if name not in known_names():
        return None
    try:
        recipe = find_recipe(name)
        passes = list(pass_.children()) if "passes" in recipe.parameters else None
        same = make_pass(name, options, passes)
    except ApassError:
        return None
    if same is not pass_ and not (_works_alike(same, pass_) if pass_.spec is None else same == pass_):
        return None
    return _make_registered, (_module_of(recipe.factory), name, dict(options), passes)


def _works_alike(one: Pass[Any], other: Pass[Any]) -> bool:
    """Tell whether two passes, made of functions, do the same: as far as one can see without calling them."""
    works = [vars(pass_).get("__wrapped__") for pass_ in (one, other)]
    return one.info == other.info and None not in works and _same(*works)


def _same(one: Any, other: Any) -> bool:
    """Compare values; functions by their code and by what they have taken from around them."""
    if one is other:
        return True
    if not isinstance(one, FunctionType) or not isinstance(other, FunctionType):
        return type(one) is type(other) and bool(one == other)
    if one.__code__ is not other.__code__ or one.__defaults__ != other.__defaults__:
        return False
    cells = zip(one.__closure__ or (), other.__closure__ or (), strict=True)
    return all(_same(mine.cell_contents, theirs.cell_contents) for mine, theirs in cells)


def _by_class_and_options(pass_: Pass[Any]) -> _Reduced | None:
    kind, given = type(pass_), vars(pass_).get("_given")
    if given is None or _found_at(f"{kind.__module__}:{kind.__qualname__}") is not kind:
        return None
    # A subclass of a decorated class has no spec: its name is that of its base.
    args, options = given if pass_.spec is None else ((), pass_.spec[1])
    return _make_of_class, (kind, args, dict(options))


def _by_function(pass_: Pass[Any]) -> _Reduced | None:
    own = vars(pass_)
    function: object = own.get("__wrapped__")
    if not _is_found(function):
        return None
    extra = {key: own[key] for key in ("timeout", "on_error") if key in own}
    required = (*pass_.info.required, *own.get("analyses", ()))
    decorator = next(make for kind, make in _DECORATORS if isinstance(pass_, kind))
    return _make_of_function, (decorator, function, pass_.info.opt_level, pass_.info.name, required, extra)


def _is_found(function: Any) -> bool:
    """Tell whether a function, or the one that a partial is of, can be imported."""
    while isinstance(function, partial):
        function = function.func
    place = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
    return function is not None and "<" not in place and _found_at(place) is function


def _module_of(factory: Any) -> str:
    """Return the module that registers a pass when it is imported, as far as one can tell."""
    while isinstance(factory, partial):
        factory = factory.args[0] if factory.args else factory.func
    return str(factory.__module__)


def _make_registered(module: str, name: str, options: Mapping[str, object], passes: list[Pass[Any]] | None) -> Any:
    import_module(module)
    try:
        return make_pass(name, options, passes)
    except UnknownPassError as error:
        raise ExecutorError(f"{error}; importing {module} does not register it in a worker") from None


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
