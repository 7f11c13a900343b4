"""TVM's type keys of the classes of attributes, and `make_node`."""

from collections.abc import Callable
from typing import Final, TypeVar, cast

from apass.errors import PassRegistrationError, did_you_mean
from apass.relay.errors import UnknownTypeKeyError
from apass.relay.ir.attrs import Attrs, DictAttrs

__all__ = ["add_attrs_type", "attrs_key", "attrs_type_of", "frozen", "make_node", "register_object"]

AttrsT = TypeVar("AttrsT", bound=Attrs)

_TYPES: Final[dict[str, type[Attrs]]] = {"DictAttrs": DictAttrs}
_KEYS: Final[dict[type[Attrs], str]] = {DictAttrs: "DictAttrs"}


def register_object(type_key: str) -> Callable[[type[AttrsT]], type[AttrsT]]:
    """Return a decorator that registers a class of attributes under a type key.

    The class then works with `make_node`, `save_json`, `load_json`, `set_attrs_type_key` of operators, and with the
    text format. See TVM's `tvm._ffi.register_object`.

    Raises:
        PassRegistrationError: by the decorator, if the key belongs to another class.
        TypeError: by the decorator, if the class is not a subclass of `Attrs`.

    >>> from dataclasses import dataclass
    >>> @register_object("example.ScaleAttrs")
    ... @dataclass(frozen=True, slots=True)
    ... class ScaleAttrs(Attrs):
    ...     factor: float = 1.0
    >>> make_node("example.ScaleAttrs", factor=2.0)
    ScaleAttrs(factor=2.0)
    """

    def register(kind: type[AttrsT]) -> type[AttrsT]:
        if not (isinstance(cast("object", kind), type) and issubclass(kind, Attrs)):
            raise TypeError(f"the object of type key {type_key!r} must be a subclass of Attrs, got {kind!r}")
        if type_key in _TYPES:
            name = _TYPES[type_key].__qualname__
            raise PassRegistrationError(f"type key {type_key!r} is already registered for {name}; use another key")
        _TYPES[type_key] = kind
        _KEYS[kind] = type_key
        return kind

    return register


def add_attrs_type(kind: type[Attrs]) -> None:
    """Register the class of an operator's attributes under a key with its name.

    A class that has a key keeps it. A key that belongs to another class remains with that class.
    """
    if kind not in _KEYS:
        _TYPES.setdefault(_KEYS.setdefault(kind, attrs_key(kind)), kind)


def attrs_key(kind: type[Attrs]) -> str:
    """Return the type key of a class of attributes.

    >>> from apass.relay.ir.expr import Op
    >>> attrs_key(type(Op.get("nn.conv2d").make_attrs()))
    'relay.attrs.Conv2DAttrs'
    """
    return _KEYS.get(kind) or f"relay.attrs.{kind.__name__}"


def attrs_type_of(key: str) -> type[Attrs]:
    """Return the class of attributes of a type key.

    Raises:
        UnknownTypeKeyError: if no class has this key. The message suggests a similar key.

    """
    if key not in _TYPES:
        raise UnknownTypeKeyError(f"unknown attributes class {key!r}{did_you_mean(key, _TYPES)}")
    return _TYPES[key]


def make_node(type_key: str, **fields: object) -> Attrs:
    """Return attributes by their type key and fields, as `tvm.ir.make_node` does.

    Fields that are absent have their defaults. Lists become tuples.

    Raises:
        UnknownTypeKeyError: if no class of attributes has this key. The message suggests a similar key.
        TypeError: if a field does not exist, or a required field is absent.

    >>> make_node("relay.attrs.Conv2DAttrs", strides=[2, 2]).strides
    (2, 2)
    >>> make_node("DictAttrs", Primitive=1)
    DictAttrs({'Primitive': 1})
    """
    kind = attrs_type_of(type_key)
    values = {name: frozen(value) for name, value in fields.items()}
    if kind is DictAttrs:
        return DictAttrs(values)
    names = kind.__dataclass_fields__
    unknown = [name for name in values if name not in names]
    if unknown:
        raise TypeError(f"{type_key} has no field {unknown[0]!r}{did_you_mean(unknown[0], names)}")
    make = cast("Callable[..., Attrs]", kind)
    return make(**values)


def frozen(value: object) -> object:
    """Return a value with lists converted to tuples, as attributes require."""
    return tuple(map(frozen, cast("list[object]", value))) if isinstance(value, list) else value
