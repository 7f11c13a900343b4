"""The implementation of the decorators: passes made from a function or a class."""

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, cast

from apass.concurrency.coroutines import is_async
from apass.core.analysis_manager import with_analyses
from apass.core.declarations import GROUP_OF
from apass.core.pass_info import PassInfo
from apass.errors import PassDefinitionError, did_you_mean
from apass.passes.base import ModulePass, Pass
from apass.passes.class_definition import PARAMETERS, check_signature

__all__ = ["pass_class_from_class", "pass_from_function"]


_CALL: Final = inspect.signature(functools.partial(cast("Any", Pass).__call__, None))
"""The signature of the call of a pass."""


def pass_from_function(base: Any, function: Any, method: str, info: PassInfo, extra: dict[str, Any]) -> Any:
    """Return a pass that calls `function`."""

    def no_options(_self: object) -> object:
        return None

    # A static method rather than a method saves a call frame between the runner and the function.
    members: dict[str, Any] = {
        method: staticmethod(function),
        "_options": no_options,
        "_code": _code_of(function),
        "__module__": base.__module__,
        "info": info,
        **{key: value for key, value in extra.items() if key in GROUP_OF},
        **({"open": staticmethod(extra["open"])} if "open" in extra else {}),
    }
    guards = {"timeout": None, "on_error": "raise", "executor": None}
    if base is ModulePass and all(extra.get(key, default) == default for key, default in guards.items()):
        analyses = extra.get("analyses")
        members["transform"] = staticmethod(with_analyses(function, analyses) if analyses else function)
    pass_: Any = type(base.__name__, (base,), members)()
    functools.update_wrapper(pass_, function, updated=())
    # `inspect.signature` would return the function's, because of `__wrapped__`.
    _attributes(pass_)["__signature__"] = _CALL
    # The attributes of the function are available on the pass, unless the pass has one of that name.
    attributes: dict[str, Any] = getattr(function, "__dict__", {})
    _attributes(pass_).update(
        {key: value for key, value in attributes.items() if not (hasattr(pass_, key) or key in GROUP_OF)}
    )
    # The runner reads these two for every pass. An attribute of the object takes 5 ns, one of its class 20 ns.
    _attributes(pass_).update({key: value for key, value in extra.items() if key not in GROUP_OF}, info=info)
    _attributes(pass_)["is_bare"] = pass_.is_bare
    return pass_


def pass_class_from_class(
    decorator: str, base: Any, target: Any, method: str, info: PassInfo, extra: dict[str, Any]
) -> Any:
    """Return a class of passes that hold an instance of `target` and call its method."""
    work_of_target = getattr(target, method, None)
    if work_of_target is None:
        near = did_you_mean(method, [name for name in dir(target) if not name.startswith("_")])
        raise PassDefinitionError(f"{decorator} needs a method {method!r} on class {target.__name__}{near}")

    if inspect.isfunction(work_of_target) and isinstance(inspect.getattr_static(target, method), FunctionType):
        check_signature(work_of_target, ("self", *PARAMETERS[method]), f"{method} of class {target.__name__}")

    def __init_subclass__(cls: Any, /, **kwargs: Any) -> None:  # noqa: N807  becomes the method of that name
        cast("Any", super(pass_class, cls)).__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = _record_arguments(cls.__init__)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807  becomes the method of that name
        _attributes(self).setdefault("_given", (args, kwargs))
        _attributes(self)["_instance"] = target(*args, **kwargs)
        if type(self) is pass_class:
            _attributes(self)["spec"] = _spec_of(info.name, target, args, kwargs)

    def options(self: Any) -> object:
        return self._given

    functools.update_wrapper(__init__, target.__init__)
    if target.__init__ is object.__init__:
        # It claims to take any argument.
        own = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]
        cast("Any", __init__).__signature__ = inspect.Signature(own)
    members: dict[str, Any] = {
        # `staticmethod` keeps an `on_error` function from becoming a method.
        **{key: staticmethod(value) if callable(value) else value for key, value in extra.items()},
        "info": info,
        "__init_subclass__": classmethod(__init_subclass__),
        "__init__": __init__,
        "_options": options,
        "_code": _code_of_class(target),
        "__getattr__": _attribute_of_instance,
        "__doc__": target.__doc__,
        "__module__": target.__module__,
        "__qualname__": target.__qualname__,
        # The runner inspects this method to find out whether bodies are async.
        method: _method_of_instance(method, is_async=is_async(getattr(target, method))),
    }
    if hasattr(target, "open"):
        check_signature(target.open, ("self", "ctx"), f"open of class {target.__name__}", may_yield=True)
        members["open"] = property(lambda self: self._instance.open)
    pass_class: Any = type(base)(target.__name__, (base,), members)
    return pass_class


def _attribute_of_instance(self: Any, name: str) -> Any:
    """Return an attribute of the instance that a pass holds; for `__getattr__`."""
    if name.startswith("__") or "_instance" not in _attributes(self):
        # Without this check, `copy` and `pickle`, which skip `__init__`, would recurse endlessly.
        raise AttributeError(name)
    return getattr(self._instance, name)


def _method_of_instance(method: str, *, is_async: bool) -> Callable[..., Any]:
    """Return a method of passes that calls the method of the instance that they hold."""

    def work(self: Any, *args: Any) -> Any:
        return getattr(self._instance, method)(*args)

    async def work_async(self: Any, *args: Any) -> Any:
        return await getattr(self._instance, method)(*args)

    return work_async if is_async else work


def _record_arguments(init: Callable[..., None]) -> Callable[..., None]:
    """Return a wrapper of a subclass's constructor that records its arguments."""

    @functools.wraps(init)
    def recording(self: Any, *args: Any, **kwargs: Any) -> None:
        # The outermost constructor comes first, and its arguments count.
        _attributes(self).setdefault("_given", (args, kwargs))
        init(self, *args, **kwargs)

    return recording


def _code_of(function: Any) -> Callable[[object], object]:
    """Return the `_code` method of the pass of a function."""
    return lambda _self: _state_of(function)


def _code_of_class(target: Any) -> Callable[[object], object]:
    """Return the `_code` method of the passes made from a class."""
    # A subclass that a user derives from the pass class has code of its own.
    return lambda self: target if type(self).__qualname__ == target.__qualname__ else (target, type(self))


def _state_of(function: Any) -> object:
    """Return a value with the fingerprint of a callable."""
    if type(function) is functools.partial:
        return (_state_of(function.func), function.args, function.keywords)
    if inspect.ismethod(function):
        return (function.__func__, _state_of(function.__self__))
    if inspect.isroutine(function) or inspect.isclass(function) or hasattr(function, "__fingerprint__"):
        return function
    kind: Any = function.__class__
    return (kind, object.__getstate__(function))


def _attributes(pass_: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", pass_.__dict__)


def _spec_of(name: str, target: type, args: Any, kwargs: Any) -> tuple[str, dict[str, object]] | None:
    """Return the name and the options of a pass, or None if an argument has no name."""
    try:
        signature = inspect.signature(target)
        options = dict(signature.bind(*args, **kwargs).arguments)
    except (ValueError, TypeError):
        return None
    kinds = {key: parameter.kind for key, parameter in signature.parameters.items()}
    if any(kind is inspect.Parameter.VAR_POSITIONAL and options.get(key) for key, kind in kinds.items()):
        return None
    var_keywords = {key for key, kind in kinds.items() if kind is inspect.Parameter.VAR_KEYWORD}
    for key in var_keywords & options.keys():
        options.update(options.pop(key))
    return (name, options)
