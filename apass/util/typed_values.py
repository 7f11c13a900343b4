"""Values of declared types: checking one, reading one from text, writing it back; for config and pipeline options."""

import json
import math
import pkgutil
import re
import types
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
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
    runtime_checkable,
)

__all__ = ["BARE_WORD", "Bare", "Entries", "convert", "read", "type_name", "write"]


class Bare(str):
    """A word of text without quotes: `3` may be an int, a float or a string, as the declared type has it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Entries:
    """A mapping as text has it: keys and values are not read yet."""

    pairs: tuple[tuple[object, object], ...]
    """Keys, each a word or a string, and values."""
    positions: tuple[int, ...] = ()
    """Where in the text each pair begins."""


BARE_WORD: Final = re.compile(r"[\w.:/+-]+")
"""What can stand in text without quotes."""

_PLAIN_STRING: Final = re.compile(r"[A-Za-z_/][\w./-]*")
_WORDS: Final = {"true": True, "false": False, "none": None}
_UNIONS: Final = (Union, types.UnionType)
_TOLD_APART: Final = (bool, int, float, types.NoneType)
"""Types whose values, as text, show which of them they are."""
_EXACT: Final[Mapping[Any, Any]] = {int: int.__int__, str: str.__str__}
"""How the value of a subclass, which may be written in another way, becomes one of the class itself."""
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
"""Types of collections, and what makes one of a list."""
_MAPPINGS: Final = (dict, Mapping, MutableMapping)


@runtime_checkable
class _Element(Protocol):
    """A pass, as one element of a pipeline's text. A Protocol, because passes lie above."""

    def text(self) -> str: ...


class _UnresolvedError(TypeError):
    """A word names nothing that can be imported."""


def type_name(tp: Any) -> str:
    """Return how a type is written in a message.

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
        return f"{type_name(origin)}[{', '.join('...' if one is Ellipsis else type_name(one) for one in arguments)}]"
    plain = _plain_type(tp)
    return getattr(plain, "__name__", str(plain)) if plain is tp else type_name(plain)


def convert(value: object, tp: Any) -> Any:
    """Return `value` as one of type `tp`.

    An int serves as a float, a string as a path, a list as a tuple or a set, and the name or the value of a member of
    an Enum as that member. A bool is no int, and a set is no list: it has no order. A mapping becomes a dict.

    Raises:
        TypeError: if it is not of that type; the message says what was wanted and given.

    >>> convert(3, float), convert(["a"], tuple[str, ...])
    (3.0, ('a',))
    >>> convert(True, int)
    Traceback (most recent call last):
        ...
    TypeError: wanted int, got True (bool)

    """
    tp = _plain_type(tp)
    kind = get_origin(tp) or tp
    if isinstance(value, float) and math.isnan(value):
        # One object for all that are no number: a list or mapping that holds it is then equal to its like.
        value = math.nan
    if kind is Any:
        return value
    if kind in _UNIONS:
        return _first_that_fits(convert, value, tp)
    if kind is Literal:
        return _one_of(value, tp)
    if kind in _COLLECTIONS:
        return _convert_items(value, tp, kind)
    if kind in _MAPPINGS:
        _checked(isinstance(value, Mapping), value, tp)
        return _mapping(convert, cast("Mapping[object, object]", value).items(), tp)
    if kind is Callable:
        return _checked(callable(value), value, tp)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return value if isinstance(value, kind) else _member(value, kind)
    return _convert_plain(value, tp, kind)


def read(value: object, tp: Any) -> Any:
    """Return what `value`, as text has it, means as one of type `tp`.

    A `Bare` word means what its letters say, a list what its items mean, `Entries` what their keys and values mean, and
    anything else what `convert` makes of it.

    Raises:
        TypeError: if it cannot be one.

    >>> read(Bare("3"), int), read(Bare("3"), str), read(Bare("true"), Any), read([Bare("1")], list[float] | None)
    (3, '3', True, [1.0])

    """
    tp = _plain_type(tp)
    if get_origin(tp) in _UNIONS:
        return _first_that_fits(read, value, tp)
    if isinstance(value, Bare):
        return _read_word(str(value), tp)
    if isinstance(value, list):
        items = cast("list[object]", value)
        return convert([read(item, one) for item, one in zip(items, _item_types(tp, items), strict=True)], tp)
    if isinstance(value, Entries):
        return convert(_mapping(read, value.pairs, tp), tp)
    return convert(value, tp)


def write(value: object) -> str:
    """Return the text of `value`: what `read` takes back to it, once words and quoted strings are told apart.

    A list of passes is written in parentheses. A value of a declared type comes back as it was if it is what `convert`
    gives for that type: so where both a string and an Enum, a path or the like will do, it is not a string of the same
    letters.

    Raises:
        TypeError: if there is no text for a value of this kind.

    >>> write([1, 2.5, True, None, "plain", "two words", "3"])
    '[1,2.5,true,none,plain,"two words","3"]'
    >>> write(json.dumps)
    'json:dumps'

    """
    if isinstance(value, Enum):
        return _write_string(value.name) if value.name in type(value).__members__ else write(value.value)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, str | PurePath):
        return _write_string(str(value))
    if isinstance(value, list | tuple | Set):
        return _write_items(cast("Collection[object]", value))
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return f"{{{','.join(f'{_write_key(key)}={write(one)}' for key, one in pairs)}}}"
    name = f"{getattr(value, '__module__', None)}:{getattr(value, '__qualname__', None)}"
    if callable(value) and BARE_WORD.fullmatch(name) and _names(name, value):
        return name
    hint = "; what can be called must be what its module and name lead to" if callable(value) else ""
    raise TypeError(f"{value!r} ({type(value).__name__}) cannot be written as text{hint}")


def _plain_type(tp: Any) -> Any:
    """Return what a type is beneath `Annotated`, `NewType`, an alias or a type variable."""
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
    # A `type X = ...` of Python 3.12.
    return _plain_type(tp.__value__) if type(tp).__name__ == "TypeAliasType" else tp


def _item_types(tp: Any, items: Sequence[object]) -> Sequence[Any]:
    """Return the type of each item of a collection of type `tp`; Any where none is declared."""
    arguments = get_args(tp) if (get_origin(tp) or tp) in _COLLECTIONS else ()
    if get_origin(tp) is tuple and Ellipsis not in arguments and len(arguments) == len(items):
        return arguments
    return [arguments[0] if arguments else Any] * len(items)


def _read_word(text: str, tp: Any) -> Any:
    kind = get_origin(tp) or tp
    if kind is Callable or kind is type:
        return convert(_resolve(text), tp)
    meanings = [_untyped(text), text]
    if isinstance(kind, type) and issubclass(kind, str | PurePath | Enum):
        meanings.reverse()
    for meaning in meanings:
        with suppress(TypeError):
            return convert(meaning, tp)
    return convert(meanings[0], tp)


def _untyped(text: str) -> object:
    """Return what a word means where no type says more."""
    if text.casefold() in _WORDS:
        return _WORDS[text.casefold()]
    for number in (int, float):
        try:
            return convert(number(text), number)
        except ValueError:
            continue
    return text


def _write_string(text: str) -> str:
    plain = _PLAIN_STRING.fullmatch(text) and isinstance(_untyped(text), str)
    return text if plain else json.dumps(text, ensure_ascii=False)


def _write_items(value: Collection[object]) -> str:
    passes = [item.text() for item in value if isinstance(item, _Element)]
    if passes and len(passes) == len(value):
        return f"({','.join(passes)})"
    items = [write(item) for item in value]
    return f"[{','.join(sorted(items) if isinstance(value, Set) else items)}]"


def _write_key(key: object) -> str:
    text = write(key)
    if text[0] not in "[{(":
        return text
    raise TypeError(f"{key!r} ({type(key).__name__}) cannot be written as text, as the key of a mapping")


def _mapping(how: Callable[[object, Any], Any], pairs: Iterable[tuple[object, object]], tp: Any) -> dict[Any, Any]:
    """Return a dict of what `how` makes of keys and values; Any where no type is declared for them."""
    arguments = get_args(tp) if (get_origin(tp) or tp) in _MAPPINGS else ()
    key_type, value_type = arguments if len(arguments) == 2 else (Any, Any)
    made: dict[Any, Any] = {}
    for raw, value in pairs:
        key = how(raw, key_type)
        if key in made:
            raise TypeError(f"wanted each key once, got {key!r} twice")
        made[key] = how(value, value_type)
    return made


def _resolve(text: str) -> object:
    # A word without a colon would name a module, and be imported where any text may stand.
    if ":" not in text:
        raise _UnresolvedError(f"wanted something callable as 'package.module:name', got {text!r}")
    try:
        return pkgutil.resolve_name(text)
    except (ImportError, AttributeError, ValueError) as error:
        message = f"wanted something callable as 'package.module:name', got {text!r} ({error})"
        raise _UnresolvedError(message) from None


def _names(text: str, value: object) -> bool:
    try:
        return _resolve(text) == value
    except _UnresolvedError:
        return False


def _first_that_fits(how: Callable[[object, Any], Any], value: object, tp: Any) -> Any:
    arms = [_plain_type(arm) for arm in get_args(tp)]
    known = _untyped(str(value)) if isinstance(value, Bare) else value
    known = dict(known.pairs) if isinstance(known, Entries) else known
    if type(known) in _TOLD_APART and type(known) in arms:
        return convert(known, type(known))
    unresolved: _UnresolvedError | None = None
    # A string takes any word, so it is asked last.
    for arm in sorted(arms, key=lambda arm: arm is str):
        try:
            return how(value, arm)
        except _UnresolvedError as error:
            unresolved = error
        except TypeError:
            continue
    if unresolved is not None:
        raise unresolved
    return _checked(False, known, tp)


def _one_of(value: object, tp: Any) -> Any:
    for one in get_args(tp):
        if (value == one and type(value) is type(one)) or (isinstance(one, Enum) and value == one.name):
            return one
    return _checked(False, value, tp)


def _convert_items(value: Any, tp: Any, kind: Any) -> Any:
    unordered = kind in (set, frozenset, Set, Collection, Iterable)
    takes = (Sequence, Set) if unordered else Sequence
    _checked(isinstance(value, takes) and not isinstance(value, str | bytes), value, tp)
    items = list(cast("Iterable[object]", value))
    arguments = get_args(tp)
    fixed = kind is tuple and bool(arguments) and Ellipsis not in arguments
    _checked(not fixed or len(arguments) == len(items), value, tp)
    made = [convert(item, one) for item, one in zip(items, _item_types(tp, items), strict=True)]
    make: Callable[[list[Any]], object] = _COLLECTIONS[kind]
    return make(made)


def _convert_plain(value: Any, tp: Any, kind: Any) -> Any:
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _float(value)
    if isinstance(kind, type) and issubclass(kind, PurePath) and isinstance(value, str):
        return kind(value)
    if kind is type and get_args(tp):
        bound = _plain_type(get_args(tp)[0])
        return _checked(isinstance(value, type) and (bound is Any or issubclass(value, bound)), value, tp)
    _checked(not (kind is int and isinstance(value, bool)) and _is_a(value, kind), value, tp)
    exact: Callable[[Any], object] | None = _EXACT.get(kind)
    return value if exact is None else exact(value)


def _float(value: float) -> Any:
    if type(value) is float:
        return value
    try:
        return float(value)
    except OverflowError:
        return _checked(False, value, float)


def _is_a(value: object, kind: Any) -> bool:
    try:
        return isinstance(kind, type) and isinstance(value, kind)
    except TypeError:  # a Protocol or a TypedDict, which cannot be checked here
        return True


def _member(value: object, tp: type[Enum]) -> Enum:
    if isinstance(value, str) and value in tp.__members__:
        return tp.__members__[value]
    try:
        return tp(value)
    except ValueError:
        raise TypeError(f"wanted one of {', '.join(tp.__members__)}, got {value!r}") from None


def _checked(fits: bool, value: Any, tp: Any) -> Any:
    if not fits:
        raise TypeError(f"wanted {type_name(tp)}, got {value!r} ({type(value).__name__})")
    return value
