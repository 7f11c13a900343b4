"""Conversion of values to declared types, and to and from text.

Config options and pipeline options use it.
"""

import json
import math
import re
import types
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import PurePath
from typing import (
    Annotated,
    Any,
    Final,
    ForwardRef,
    Literal,
    NewType,
    Protocol,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

__all__ = ["BARE_WORD", "Bare", "Entries", "convert", "is_plain_word", "plain_types", "read", "type_name", "write"]


class Bare(str):
    """A word of text without quotes; the declared type decides its meaning.

    For example, `3` may be an int, a float or a string.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Entries:
    """A parsed mapping whose keys and values are not converted yet."""

    pairs: tuple[tuple[object, object], ...]
    """The keys, each a word or a string, and the values."""
    positions: tuple[int, ...] = ()
    """The offset in the text at which each pair begins."""


BARE_WORD: Final = re.compile(r"[\w.:/+-]+")
"""A word that needs no quotes."""

_PLAIN_STRING: Final = re.compile(r"[A-Za-z_/][\w./-]*")
_WORDS: Final = {"true": True, "false": False, "none": None}
_UNIONS: Final = (Union, types.UnionType)
_SELF_DESCRIBING: Final = (bool, int, float, types.NoneType)
"""Types whose text determines the type."""
_EXACT: Final[Mapping[Any, Any]] = {int: int.__int__, str: str.__str__}
"""Functions that turn an instance of a subclass, whose text may differ, into one of the class itself."""
_COLLECTIONS: Final[Mapping[Any, Any]] = {
    list: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    Sequence: list,
    Collection: list,
    Iterable: list,
    Set: frozenset,
}
"""Collection types, each with the constructor that makes one from a list."""
_MAPPINGS: Final = (dict, Mapping, MutableMapping)


@runtime_checkable
class _Element(Protocol):
    """A pass as one element of a pipeline's text.

    It is a Protocol because this module must not import `apass.passes`.
    """

    def text(self) -> str: ...


class _UnresolvedError(TypeError):
    """A word that is not the name of a callable."""


def _no_callables(name: str) -> object:
    raise LookupError(f"no callable has the name {name!r}")


def _no_names(_value: object) -> None:
    return None


def _no_name(_text: str) -> bool:
    return False


def type_name(tp: Any) -> str:
    """Return the name of a type for use in messages.

    >>> type_name(int | None), type_name(list[str]), type_name(Any), type_name(Callable[[int], bool])
    ('int | None', 'list[str]', 'any', 'callable')
    """
    origin, arguments = get_origin(tp), get_args(tp)
    if tp is Any or isinstance(tp, str | ForwardRef):
        return "any"
    if tp is None or tp is types.NoneType:
        return "None"
    if origin in _UNIONS:
        return " | ".join(map(type_name, arguments))
    if origin is Literal:
        return " | ".join(map(repr, arguments))
    if (origin or tp) is Callable:
        return "callable"
    if origin is not None and arguments and origin is not Annotated:
        names = ("..." if argument is Ellipsis else type_name(argument) for argument in arguments)
        return f"{type_name(origin)}[{', '.join(names)}]"
    plain = _plain_type(tp)
    return getattr(plain, "__name__", str(plain)) if plain is tp else type_name(plain)


def convert(value: object, tp: Any) -> Any:
    """Return `value` converted to type `tp`.

    These conversions are allowed:

    - an int to a float, and a string to a path;
    - a list to a tuple or a set;
    - a mapping to a dict, or to a dataclass by its fields;
    - the name or the value of an Enum member to that member.

    A bool is rejected as an int, and a set as a list, because it has no order.

    Raises:
        TypeError: if `value` cannot be converted; the message gives the expected type and the value.

    >>> convert(3, float), convert(["a"], tuple[str, ...])
    (3.0, ('a',))
    >>> convert(True, int)
    Traceback (most recent call last):
        ...
    TypeError: expected int, got True (bool)

    """
    tp = _plain_type(tp)
    kind = get_origin(tp) or tp
    if isinstance(value, float) and math.isnan(value):
        # NaN differs from itself, but containers compare by identity first: with one NaN object, they compare equal.
        value = math.nan
    if kind is Any:
        return value
    if kind in _UNIONS:
        return _convert_union(convert, value, tp)
    if kind is Literal:
        return _convert_literal(value, tp)
    if kind in _COLLECTIONS:
        return _convert_items(value, tp, kind)
    if kind in _MAPPINGS:
        _checked(isinstance(value, Mapping), value, tp)
        return _convert_pairs(convert, cast("Mapping[object, object]", value).items(), tp)
    if kind is Callable:
        return _checked(callable(value), value, tp)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return value if isinstance(value, kind) else _convert_member(value, kind)
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, Mapping):
        return _convert_fields(cast("Mapping[object, object]", value), kind)
    return _convert_plain(value, tp, kind)


def read(value: object, tp: Any, find_callable: Callable[[str], object] = _no_callables) -> Any:
    """Return parsed text as a value of type `tp`.

    `Bare` words are interpreted according to the type. Lists and `Entries` are read item by item. All other values are
    passed to `convert`.

    Parameters:
        value: the parsed text.
        tp: the type.
        find_callable: returns the callable or class of a name, or raises LookupError. By default there is none.

    Raises:
        TypeError: if the text is not valid for the type.

    >>> read(Bare("3"), int), read(Bare("3"), str), read(Bare("true"), Any), read([Bare("1")], list[float] | None)
    (3, '3', True, [1.0])

    """
    tp = _plain_type(tp)
    read_item = partial(read, find_callable=find_callable)
    if get_origin(tp) in _UNIONS:
        return _convert_union(read_item, value, tp)
    if isinstance(value, Bare):
        return _read_word(str(value), tp, find_callable)
    if isinstance(value, list):
        items = cast("list[object]", value)
        return convert([read_item(item, kind) for item, kind in zip(items, _item_types(tp, items), strict=True)], tp)
    if isinstance(value, Entries):
        return convert(_convert_pairs(read_item, value.pairs, tp), tp)
    return convert(value, tp)


def write(
    value: object,
    callable_name: Callable[[object], str | None] = _no_names,
    is_callable_name: Callable[[str], bool] = _no_name,
) -> str:
    """Return the text of `value`, from which the parser and `read` restore it.

    A list of passes is written in parentheses. A value is restored exactly if it is a result of `convert` for the
    declared type. For a union such as `str | Path`, a string with the same letters may come back as the other type.

    Parameters:
        value: the value.
        callable_name: returns the name of a callable or class, or None if it has none. By default none has a name.
        is_callable_name: returns whether a text without quotes names a callable, so that a string needs them.

    Raises:
        TypeError: if values of this kind have no text, or the value is a callable without a name.

    >>> write([1, 2.5, True, None, "plain", "two words", "3"])
    '[1,2.5,true,none,plain,"two words","3"]'
    >>> write(json.dumps, {json.dumps: "dumps"}.get)
    'dumps'

    """
    again = partial(write, callable_name=callable_name, is_callable_name=is_callable_name)
    if isinstance(value, Enum):
        return again(value.name if value.name in type(value).__members__ else value.value)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, str | PurePath):
        text = str(value)
        return text if is_plain_word(text) and not is_callable_name(text) else json.dumps(text, ensure_ascii=False)
    if isinstance(value, list | tuple | Set):
        return _write_items(cast("Collection[object]", value), again)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        texts = [f"{_write_key(key, again)}={again(item)}" for key, item in pairs]
        return f"{{{','.join(texts)}}}"
    name = callable_name(value) if callable(value) else None
    if name is not None:
        return name
    hint = "; give it a name with apass.register_callable" if callable(value) else ""
    raise TypeError(f"{value!r} ({type(value).__name__}) cannot be written as text{hint}")


def _plain_type(tp: Any) -> Any:
    """Return the type behind `Annotated`, `NewType`, an alias or a type variable."""
    if tp is None:
        return types.NoneType
    if isinstance(tp, str | ForwardRef):
        return Any
    if isinstance(tp, TypeVar):
        return _plain_type(tp.__bound__ or Any)
    if get_origin(tp) is Annotated:
        return _plain_type(get_args(tp)[0])
    if isinstance(tp, NewType):
        return _plain_type(tp.__supertype__)
    # An alias made by `type X = ...`. `typing.TypeAliasType` exists only since Python 3.12, hence the name.
    return _plain_type(tp.__value__) if type(tp).__name__ == "TypeAliasType" else tp


def plain_types(tp: Any) -> list[Any]:
    """Return the types of a union without annotations and aliases, or the one type.

    >>> plain_types(int | None)
    [<class 'int'>, <class 'NoneType'>]
    """
    tp = _plain_type(tp)
    return list(map(_plain_type, get_args(tp))) if get_origin(tp) in _UNIONS else [tp]


def _item_types(tp: Any, items: Sequence[object]) -> Sequence[Any]:
    """Return the type of each item of a collection of type `tp`; by default Any."""
    arguments = get_args(tp) if (get_origin(tp) or tp) in _COLLECTIONS else ()
    if get_origin(tp) is tuple and Ellipsis not in arguments and len(arguments) == len(items):
        return arguments
    return [arguments[0] if arguments else Any] * len(items)


def _read_word(text: str, tp: Any, find_callable: Callable[[str], object]) -> Any:
    kind = get_origin(tp) or tp
    if kind is Callable or kind is type:
        try:
            return convert(find_callable(text), tp)
        except LookupError as error:
            raise _UnresolvedError(str(error)) from None
    meanings = [_untyped(text), text]
    if isinstance(kind, type) and issubclass(kind, str | PurePath | Enum):
        meanings.reverse()
    for meaning in meanings:
        with suppress(TypeError):
            return convert(meaning, tp)
    return convert(meanings[0], tp)


def _untyped(text: str) -> object:
    """Return the value of a word for which no type is declared."""
    if text.casefold() in _WORDS:
        return _WORDS[text.casefold()]
    for number in (int, float):
        try:
            return convert(number(text), number)
        except ValueError:
            continue
    return text


def is_plain_word(text: str) -> bool:
    """Return whether a text without quotes is a word: `3` and `none` are not."""
    return _PLAIN_STRING.fullmatch(text) is not None and isinstance(_untyped(text), str)


def _write_items(value: Collection[object], write_item: Callable[[object], str]) -> str:
    passes = [item.text() for item in value if isinstance(item, _Element)]
    if passes and len(passes) == len(value):
        return f"({','.join(passes)})"
    items = [write_item(item) for item in value]
    return f"[{','.join(sorted(items) if isinstance(value, Set) else items)}]"


def _write_key(key: object, write_item: Callable[[object], str]) -> str:
    text = write_item(key)
    if text[0] not in "[{(":
        return text
    raise TypeError(f"{key!r} ({type(key).__name__}) cannot be written as text, as the key of a mapping")


def _convert_pairs(
    convert_item: Callable[[object, Any], Any], pairs: Iterable[tuple[object, object]], tp: Any
) -> dict[Any, Any]:
    """Return a dict of the converted keys and values; their types default to Any."""
    arguments = get_args(tp) if (get_origin(tp) or tp) in _MAPPINGS else ()
    key_type, value_type = arguments if len(arguments) == 2 else (Any, Any)
    result: dict[Any, Any] = {}
    for raw, value in pairs:
        key = convert_item(raw, key_type)
        if key in result:
            raise TypeError(f"expected each key once, got {key!r} twice")
        result[key] = convert_item(value, value_type)
    return result


def _convert_fields(values: Mapping[object, object], kind: type[Any]) -> Any:
    """Return the dataclass `kind` with the values of its fields, converted.

    Source: TVM, which converts a map to the node of a config option.
    """
    known = {field.name for field in fields(kind) if field.init}
    unknown = [key for key in values if key not in known]
    if unknown:
        expected = f"it has {', '.join(sorted(known))}" if known else "it has none"
        raise TypeError(f"{kind.__name__} has no field {unknown[0]!r}; {expected}")
    types_of_fields = get_type_hints(kind)
    arguments: dict[str, Any] = {}
    for key, value in values.items():
        try:
            arguments[str(key)] = convert(value, types_of_fields[str(key)])
        except TypeError as error:
            raise TypeError(f"field {key!r} of {kind.__name__}: {error}") from None
    try:
        return kind(**arguments)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{kind.__name__} cannot be made of {dict(values)!r}: {error}") from None


def _convert_union(convert_item: Callable[[object, Any], Any], value: object, tp: Any) -> Any:
    """Return `value` converted to the first member of the union that accepts it."""
    members = [_plain_type(member) for member in get_args(tp)]
    untyped = _untyped(str(value)) if isinstance(value, Bare) else value
    untyped = dict(untyped.pairs) if isinstance(untyped, Entries) else untyped
    if type(untyped) in _SELF_DESCRIBING and type(untyped) in members:
        return convert(untyped, type(untyped))
    unresolved: _UnresolvedError | None = None
    # `str` accepts every word, so it is tried last.
    for member in sorted(members, key=lambda member: member is str):
        try:
            return convert_item(value, member)
        except _UnresolvedError as error:
            unresolved = error
        except TypeError:
            continue
    if unresolved is not None:
        raise unresolved
    return _checked(False, untyped, tp)


def _convert_literal(value: object, tp: Any) -> Any:
    for choice in get_args(tp):
        if (value == choice and type(value) is type(choice)) or (isinstance(choice, Enum) and value == choice.name):
            return choice
    return _checked(False, value, tp)


def _convert_items(value: Any, tp: Any, kind: Any) -> Any:
    unordered = kind in (set, frozenset, Set, Collection, Iterable)
    accepted = (Sequence, Set) if unordered else Sequence
    _checked(isinstance(value, accepted) and not isinstance(value, str | bytes), value, tp)
    items = list(cast("Iterable[object]", value))
    arguments = get_args(tp)
    fixed = kind is tuple and bool(arguments) and Ellipsis not in arguments
    _checked(not fixed or len(arguments) == len(items), value, tp)
    converted = [convert(item, item_type) for item, item_type in zip(items, _item_types(tp, items), strict=True)]
    make: Callable[[list[Any]], object] = _COLLECTIONS[kind]
    return make(converted)


def _convert_plain(value: Any, tp: Any, kind: Any) -> Any:
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _convert_float(value)
    if isinstance(kind, type) and issubclass(kind, PurePath) and isinstance(value, str):
        return kind(value)
    if kind is type and get_args(tp):
        bound = _plain_type(get_args(tp)[0])
        return _checked(isinstance(value, type) and (bound is Any or issubclass(value, bound)), value, tp)
    _checked(not (kind is int and isinstance(value, bool)) and _is_instance(value, kind), value, tp)
    exact: Callable[[Any], object] | None = _EXACT.get(kind)
    return value if exact is None else exact(value)


def _convert_float(value: float) -> Any:
    if type(value) is float:
        return value
    try:
        return float(value)
    except OverflowError:
        return _checked(False, value, float)


def _is_instance(value: object, kind: Any) -> bool:
    try:
        return isinstance(kind, type) and isinstance(value, kind)
    except TypeError:  # `isinstance` does not support a Protocol that is not runtime-checkable, or a TypedDict
        return True


def _convert_member(value: object, tp: type[Enum]) -> Enum:
    if isinstance(value, str) and value in tp.__members__:
        return tp.__members__[value]
    try:
        return tp(value)
    except ValueError:
        raise TypeError(f"expected one of {', '.join(tp.__members__)}, got {value!r}") from None


def _checked(fits: bool, value: Any, tp: Any) -> Any:
    if not fits:
        raise TypeError(f"expected {type_name(tp)}, got {value!r} ({type(value).__name__})")
    return value
