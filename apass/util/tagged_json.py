"""Values as JSON and back, for values that JSON alone cannot express.

The text names the classes of dataclasses and enums. Reading it creates objects of the given classes only, so the text
may come from a stranger.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final, get_args, get_type_hints

__all__ = ["reachable_types", "read_tagged", "write_tagged"]

_TAG: Final = "!"
"""The only key of an object that is something other than a mapping of strings."""

_PLAIN: Final = (str, int, float, bool, type(None))


def write_tagged(value: object, types: Iterable[type]) -> str:
    """Return a value as JSON text.

    Supported are strings, numbers, None, bytes, lists, tuples, sets, mappings with any keys, and the dataclasses and
    enums in `types`. A float may be infinite or NaN, which other readers of JSON may reject.

    Raises:
        TypeError: if the value contains anything else, or is nested too deeply.

    >>> write_tagged({"a": (1, 2), "b": [None]}, [])
    '{"a": {"!": ["tuple", [1, 2]]}, "b": [null]}'
    >>> write_tagged(object(), [])
    Traceback (most recent call last):
    TypeError: a value of type object cannot be written

    """
    names = {kind: name for name, kind in _by_name(types).items()}
    try:
        return json.dumps(_encoded(value, names))
    except RecursionError:
        raise TypeError("the value is nested too deeply, or contains itself") from None


def read_tagged(text: str | bytes, types: Iterable[type]) -> Any:
    """Return the value that `write_tagged` wrote.

    Raises:
        ValueError: if the text is not that of a value, or names a class that is not in `types`.

    >>> read_tagged('{"a": {"!": ["tuple", [1, 2]]}}', [])
    {'a': (1, 2)}

    """
    try:
        return _decoded(json.loads(text), _by_name(types))
    except RecursionError:
        raise ValueError("the value is nested too deeply") from None
    except (TypeError, KeyError, AttributeError) as error:  # of a value with other parts, or of a class's constructor
        raise ValueError(f"this is not the text of a value: {type(error).__name__}: {error}") from error


def reachable_types(roots: Iterable[object]) -> frozenset[type]:
    """Return the dataclasses and enums that the fields of some classes mention.

    Subclasses of a class belong to it.

    Parameters:
        roots: classes, or other types such as `list[Func]`.

    """
    found: set[type] = set()
    stack = list(roots)
    while stack:
        root = stack.pop()
        stack.extend(get_args(root))
        if not isinstance(root, type) or root in found or not (is_dataclass(root) or issubclass(root, Enum)):
            continue
        found.add(root)
        stack.extend(root.__subclasses__())
        if is_dataclass(root):
            try:
                stack.extend(get_type_hints(root).values())
            except (NameError, TypeError, AttributeError):  # an annotation that only a type checker can evaluate
                continue
    return frozenset(found)


def _by_name(types: Iterable[type]) -> dict[str, type]:
    return {f"{kind.__module__}:{kind.__qualname__}": kind for kind in types}


def _encoded(value: Any, names: Mapping[type, str]) -> Any:
    kind: Any = value.__class__
    if kind in _PLAIN:
        return value
    if kind is list:
        return [_encoded(item, names) for item in value]
    if kind is dict and all(type(key) is str for key in value) and _TAG not in value:
        return {key: _encoded(item, names) for key, item in value.items()}
    return {_TAG: list(_tagged(value, kind, names))}


def _tagged(value: Any, kind: Any, names: Mapping[type, str]) -> Iterator[Any]:
    """Iterate over the tag and the contents of a value."""
    if kind in _COLLECTIONS_BY_TYPE:
        yield _COLLECTIONS_BY_TYPE[kind]
        items = [_encoded(item, names) for item in value]
        # The order of a set differs between processes.
        yield items if kind is tuple else sorted(items, key=json.dumps)
    elif kind is dict:
        yield "dict"
        yield [[_encoded(key, names), _encoded(item, names)] for key, item in value.items()]
    elif kind is bytes:
        yield "bytes"
        yield b64encode(value).decode()
    elif kind in names:
        yield names[kind]
        if isinstance(value, Enum):
            yield value.name
        else:
            yield {item.name: _encoded(getattr(value, item.name), names) for item in fields(value) if item.init}
    else:
        raise TypeError(f"a value of type {kind.__qualname__} cannot be written")


_COLLECTIONS: Final[Mapping[str, Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}
_COLLECTIONS_BY_TYPE: Final[Mapping[Any, str]] = {kind: tag for tag, kind in _COLLECTIONS.items()}


def _decoded(value: Any, types: Mapping[str, type]) -> Any:
    if value.__class__ is list:
        return [_decoded(item, types) for item in value]
    if value.__class__ is not dict:
        return value
    if _TAG not in value:
        return {key: _decoded(item, types) for key, item in value.items()}
    tag, contents = value[_TAG]
    if tag in _COLLECTIONS:
        return _COLLECTIONS[tag](_decoded(contents, types))
    if tag == "dict":
        return {_decoded(key, types): _decoded(item, types) for key, item in contents}
    if tag == "bytes":
        return b64decode(contents, validate=True)
    if tag not in types:
        raise ValueError(f"the class {tag!r} is not among those that may be read")
    kind: Any = types[tag]
    if issubclass(kind, Enum):
        return kind[contents]
    return kind(**{key: _decoded(item, types) for key, item in contents.items()})
