"""Passes as classes: the keywords and the options of a class statement."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from functools import wraps
from types import FunctionType
from typing import Any, ClassVar, Final, get_type_hints
from weakref import WeakKeyDictionary

from apass.core.declarations import GROUP_OF, Contract
from apass.core.pass_info import PassInfo
from apass.errors import PassDefinitionError
from apass.passes.options import PassOptions, Requirements, check_pass_options, split_requirements
from apass.util.typed_values import convert

__all__ = [
    "PARAMETERS",
    "check_signature",
    "define_options",
    "options_of_constructor",
    "set_class_keywords",
    "set_declared",
]

PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "transform_module": ("mod", "ctx"),
    "transform_function": ("func", "mod", "ctx"),
    "transform_in_place": ("mod", "ctx"),
}
"""The parameters of each method that a pass implements, without `self`."""

_KEYWORDS: Final = "_has_class_keywords"
"""Set on a class whose `info` comes from the keywords of its class statement."""


def set_class_keywords(
    cls: Any, opt_level: int | None, name: str | None, required: Requirements, options: PassOptions
) -> None:
    """Set attributes of a class of passes from the keywords of its class statement.

    For example, `class Fold(ModulePass[Mod], opt_level=2, required=["InferType"])` sets `info` to
    `PassInfo(2, "Fold", ["InferType"])`.

    Raises:
        PassDefinitionError: if `opt_level` is missing, `info` is set too, or a value is invalid.

    """
    where = f"class {cls.__name__}"
    if opt_level is None and (name is not None or required is not None):
        raise PassDefinitionError(f"please provide opt_level: {where}(..., opt_level=...)")
    if opt_level is None and "info" not in cls.__dict__ and hasattr(cls, _KEYWORDS):
        # Another pass than its base, which has keywords.
        cls.info = PassInfo(cls.info.opt_level, cls.__name__, cls.info.required)
    if opt_level is not None:
        if "info" in cls.__dict__:
            raise PassDefinitionError(f"{where} has opt_level= and info; leave one of them out")
        names, analyses = split_requirements(required)
        cls.info = PassInfo(opt_level, cls.__name__ if name is None else name, names)
        setattr(cls, _KEYWORDS, True)
        if analyses:
            cls.analyses = analyses
    for key, value in check_pass_options(where, options).items():
        # A function would become a method.
        setattr(cls, key, staticmethod(value) if isinstance(value, FunctionType) else value)
    _group_declarations(cls, where)
    _check_methods(cls, where)


def _group_declarations(cls: Any, where: str) -> None:
    """Move what the class declares from its body to its groups."""
    declared: dict[str, Any] = {key: value for key, value in cls.__dict__.items() if key in GROUP_OF}
    for key, value in declared.items():
        if isinstance(value, property):
            raise PassDefinitionError(f"{where} has a property {key!r}; set the attribute in __init__")
        # The group alone holds it, so that no attribute of the class can differ from it.
        delattr(cls, key)
    options: Any = {key: value for key, value in declared.items() if key in PassOptions.__annotations__}
    declared.update(check_pass_options(where, options))
    for group in dict.fromkeys(map(GROUP_OF.__getitem__, declared)):
        values = {key: value for key, value in declared.items() if GROUP_OF[key] == group}
        setattr(cls, group, replace(getattr(cls, group), **values))


def set_declared(pass_: Any, name: str, value: object) -> None:
    """Set an attribute of a pass; what it declares becomes part of a group.

    Raises:
        PassDefinitionError: if the value is invalid, or is checked around the work: the class decides which layers its
            passes have.

    """
    group = GROUP_OF.get(name)
    if group is not None:
        kind = type(pass_).__name__
        if name in ("requires", "ensures", "idempotent"):
            raise PassDefinitionError(
                f"a pass of class {kind} sets {name!r} on itself; set it on the class: "
                f"class {kind}(..., {name}={value!r})"
            )
        if name in PassOptions.__annotations__:
            option: Any = {name: value}
            value = check_pass_options(f"class {kind}", option)[name]
        name, value = group, replace(getattr(pass_, group), **{name: value})
    elif name == "contract" and isinstance(value, Contract) and value.is_checked and value != pass_.contract:
        raise PassDefinitionError(f"a pass sets 'contract' on itself; set it on the class {type(pass_).__name__}")
    object.__setattr__(pass_, name, value)


def _check_methods(cls: Any, where: str) -> None:
    """Raise PassDefinitionError if the runner cannot call a method."""
    for method in PARAMETERS:
        work: object = cls.__dict__.get(method)
        if isinstance(work, FunctionType):
            check_signature(work, ("self", *PARAMETERS[method]), f"{method} of {where}")
    if isinstance(cls.__dict__.get("open"), FunctionType):
        check_signature(cls.__dict__["open"], ("self", "ctx"), f"open of {where}", may_yield=True)


def check_signature(
    function: Callable[..., Any], parameters: tuple[str, ...], subject: str, *, may_yield: bool = False
) -> None:
    """Check that a body accepts the arguments of the runner, and returns its result.

    Parameters:
        function: the function or method.
        parameters: the names of the arguments, for the message.
        subject: what the message calls the function.
        may_yield: whether it may be a generator function.

    Raises:
        PassDefinitionError: if it accepts other arguments, or is a generator function.

    """
    if not may_yield and (inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)):
        raise PassDefinitionError(f"{subject} must return its result, but {function!r} is a generator function")
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # a function written in C
        return
    try:
        signature.bind(*parameters)
    except TypeError:
        shown = signature.replace(
            parameters=[item.replace(annotation=inspect.Parameter.empty) for item in signature.parameters.values()],
            return_annotation=inspect.Signature.empty,
        )
        raise PassDefinitionError(f"{subject} takes {shown}, expected ({', '.join(parameters)})") from None


def define_options(cls: Any, *, init: bool, kw_only: bool, not_fields: frozenset[str]) -> None:
    """Make a class of passes a dataclass, whose fields are the options.

    An object cannot be changed after its construction, because a pass holds no state of a run. A class with an
    `__init__` of its own stays as it is.

    Parameters:
        cls: the class.
        init: whether the class gets a constructor.
        kw_only: whether the options of the class are given by keyword only.
        not_fields: names whose annotation does not make an option.

    Raises:
        PassDefinitionError: if a default is mutable, an option without a default follows one with a default, or an
            option has the name of a method.

    """
    # `inspect.get_annotations` instead of the attribute, which may be inherited.
    annotations = {**_redefined(cls), **inspect.get_annotations(cls)}
    cls.__annotations__ = {key: ClassVar[Any] if key in not_fields else value for key, value in annotations.items()}
    _check_names(cls, annotations.keys() - not_fields)
    has_constructor = "__init__" in cls.__dict__ or not _is_plain_constructor(cls.__init__)
    if not init or has_constructor or not (annotations.keys() - not_fields or _has_fields(cls)):
        return
    doc = cls.__doc__
    try:
        dataclass(eq=False, repr=False, kw_only=kw_only)(cls)
    except (TypeError, ValueError) as error:
        raise PassDefinitionError(f"class {cls.__name__}: {error}") from None
    # `dataclass` documents a class without a docstring by its signature.
    cls.__doc__ = doc
    cls.__init__ = _checking_options(cls.__init__)
    cls.__setattr__, cls.__delattr__ = _set_attribute, _delete_attribute


def _check_names(cls: Any, names: Iterable[str]) -> None:
    """Raise PassDefinitionError if an option would hide a method of the base classes."""
    bases: list[Mapping[str, Any]] = [
        vars(base) for base in cls.__mro__[1:] if base.__module__.partition(".")[0] == "apass"
    ]
    for name in sorted(names):
        if any(callable(members.get(name)) or isinstance(members.get(name), property) for members in bases):
            raise PassDefinitionError(
                f"class {cls.__name__}: the option {name!r} would hide the method of that name; choose another name"
            )


def _redefined(cls: Any) -> dict[str, Any]:
    """Return the types of the inherited options whose default a class replaces.

    It gives them a default without an annotation. Such a value becomes a field, which is given by keyword only if the
    inherited one is.
    """
    inherited = {option.name: option for option in fields(cls)} if _has_fields(cls) else {}
    types: dict[str, Any] = {}
    for name in inherited.keys() & cls.__dict__.keys() - inspect.get_annotations(cls).keys():
        value = cls.__dict__[name]
        if not isinstance(value, FunctionType | property | staticmethod | classmethod):
            types[name] = inherited[name].type
            if not isinstance(value, Field):
                setattr(cls, name, field(default=value, kw_only=bool(inherited[name].kw_only)))
    return types


def _set_attribute(self: Any, name: str, value: object) -> None:
    _check_incomplete(self, name)
    set_declared(self, name, value)


def _delete_attribute(self: Any, name: str) -> None:
    _check_incomplete(self, name)
    object.__delattr__(self, name)


def _check_incomplete(pass_: Any, name: str) -> None:
    """Raise FrozenInstanceError if the constructor has ended."""
    if "spec" in vars(pass_):
        raise FrozenInstanceError(
            f"cannot change {name!r} of pass {pass_.info.name!r}: a pass may run on many modules at once; "
            f"keep the state of a run in local variables, and create another pass for other options"
        )


def _has_fields(cls: Any) -> bool:
    return is_dataclass(cls)


def _is_plain_constructor(init: Any) -> bool:
    """Return whether a constructor comes from `object` or from `define_options`."""
    return init is object.__init__ or hasattr(init, _MARK)


_MARK: Final = "__of_options__"


def _checking_options(init: Callable[..., None]) -> Callable[..., None]:
    """Return a wrapper of a constructor, which checks the options.

    It also sets the `spec` of the pass. An option of the wrong type raises PassDefinitionError.
    """

    # The wrapper refers to nothing else than `init`: the class of a notebook is sent to workers by value.
    @wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807  becomes the method of that name
        if args or kwargs:
            mro: tuple[type[Any], ...] = self.__class__.__mro__
            owner = next(base for base in mro if vars(base).get("__init__") is __init__)
            args, kwargs = _converted(self, owner, args, kwargs)
        init(self, *args, **kwargs)
        # A class without `info` fails when its pass is called, with a message that says so.
        if self.__class__.__init__ is __init__ and hasattr(self, "info"):
            name = self.__class__.__dict__.get("registered_name") or self.info.name
            object.__setattr__(self, "spec", (name, _options_of(self)))

    vars(__init__)[_MARK] = True
    return __init__


_TYPES: Final[WeakKeyDictionary[type, Mapping[str, Any]]] = WeakKeyDictionary()
"""The types of the options of classes."""


def _converted(pass_: Any, owner: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the arguments of a constructor, converted to the types of options.

    Raises:
        PassDefinitionError: if a value has the wrong type.

    """
    options = {option.name: option for option in fields(owner) if option.init}
    positional = [name for name, option in options.items() if not option.kw_only]
    types = _TYPES.get(owner)
    if types is None:
        # Not when the class is defined: an annotation may refer to a class that is defined later.
        types = _TYPES[owner] = _types_of(owner)

    def one(name: str, value: object) -> object:
        if name not in options or value is options[name].default:
            return value
        try:
            return convert(value, types.get(name, Any))
        except TypeError as error:
            shown = pass_.info.name if hasattr(pass_, "info") else owner.__name__
            raise PassDefinitionError(f"option {name!r} of pass {shown!r}: {error}") from None

    known = [one(name, value) for name, value in zip(positional, args, strict=False)]
    return (*known, *args[len(known) :]), {name: one(name, value) for name, value in kwargs.items()}


def _types_of(cls: Any) -> Mapping[str, Any]:
    """Return the types of options.

    Those whose annotation cannot be evaluated are missing.
    """
    types: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        with suppress(Exception):  # an annotation may be any expression
            types.update(get_type_hints(base))
    return types


def options_of_constructor(pass_: Any) -> dict[str, object]:
    """Return the options of a pass whose class has its own constructor.

    These are the attributes that have the name of a parameter, and differ from its default.

    Raises:
        TypeError: if a parameter has no such attribute.

    """
    kind: type[Any] = pass_.__class__
    init: Any = kind.__init__
    if "registered_name" in vars(pass_):  # the object itself is registered, and its name restores it
        return {}
    # Classes of apass get their `spec` where they are created.
    if not isinstance(init, FunctionType) or init.__module__.partition(".")[0] == "apass" or hasattr(init, _MARK):
        return {}
    options: dict[str, object] = {}
    for parameter in list(inspect.signature(init).parameters.values())[1:]:
        name = parameter.name
        if name == "passes" and pass_.children():
            continue
        is_property = isinstance(inspect.getattr_static(kind, name, None), property)
        if name not in vars(pass_) and not is_property:
            raise TypeError(
                f"pass {pass_.info.name!r} cannot be written as text: {kind.__name__}.__init__ takes {name!r}, "
                f"but the pass has no attribute of this name; set self.{name}, or declare options as annotated "
                f"attributes of the class"
            )
        value = getattr(pass_, name)
        if not _is_same(value, parameter.default):
            options[name] = value
    return options


def _options_of(pass_: Any) -> dict[str, object]:
    """Return the options that differ from their defaults."""
    options: dict[str, object] = {}
    for option in fields(pass_):
        value = getattr(pass_, option.name)
        default = option.default if option.default_factory is MISSING else option.default_factory()
        if option.init and not _is_same(value, default):
            options[option.name] = value
    return options


def _is_same(value: object, default: object) -> bool:
    try:
        return value is default or bool(value == default)
    except Exception:  # the comparison of the user's objects, such as arrays
        return False
