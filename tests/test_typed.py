"""Values of declared types: what `convert` makes of them; `write` and `read` as inverses through a pipeline's text."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from enum import Enum, Flag, IntEnum, StrEnum
from fractions import Fraction
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NewType, Protocol, TypeVar, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import apass
from apass.combinators import Repeat
from apass.pipeline import parse_pipeline
from apass.typed import Bare, convert, read, type_name, write

Kept = TypeVar("Kept")
Bounded = TypeVar("Bounded", bound=int)
Depth = NewType("Depth", int)


class Color(Enum):
    RED = "red"
    GREEN = 0.5
    ALSO_RED = RED


# Names and values that are each other's, and names that are words of their own as text.
Odd = Enum("Odd", {"A": "B", "B": "A", "none": 1, "inf": 2, "two words": 3, "3": 4, "TRUE": 5})


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(StrEnum):
    YES = "y"
    NO = "n"


class Rights(Flag):
    READ = 1
    WRITE = 2


class Sized(Protocol):
    def size(self) -> int: ...


class Box:
    def method(self) -> None: ...

    @classmethod
    def make(cls) -> "Box":
        return cls()


EMPTY: apass.Sequential[Any] = apass.Sequential([])


def through_text(value: object, tp: Any) -> Any:
    """Return what the option `value: tp` of a pass is given by a pipeline in which `value` is written."""
    seen: list[object] = []

    def factory(value: Any) -> apass.Pass[Any]:
        seen.append(value)
        return apass.module_pass(lambda mod, ctx: mod, opt_level=0, name="Probe")

    factory.__annotations__["value"] = tp
    apass.register_pass("Probe", factory)
    try:
        parse_pipeline(f"Probe{{value={write(value)}}}")
    finally:
        apass.unregister_pass("Probe")
    return seen[0]


def shape(value: object) -> object:
    """Return `value` in a form that is equal only for values of equal types, all through; a nan is equal to a nan."""
    kind = type(value)
    if isinstance(value, list | tuple):
        return (kind, [shape(item) for item in cast("Sequence[Any]", value)])
    if isinstance(value, set | frozenset):
        return (kind, {shape(item) for item in cast("Set[Any]", value)})
    return (kind, repr(value)) if isinstance(value, float) else (kind, value)


# What convert makes of a value.

CONVERTED: list[tuple[object, Any, object]] = [
    (3, int, 3),
    (3, float, 3.0),
    (Level.HIGH, int, 2),
    (Word.YES, str, "y"),
    (Bare("3"), str, "3"),
    (None, None, None),
    (None, int | None, None),
    (3, float | int, 3),
    (3.0, int | float, 3.0),
    (True, int | bool, True),
    ("3", int | str, "3"),
    ("a", Path, Path("a")),
    ("a", PurePosixPath | None, PurePosixPath("a")),
    (["a"], tuple[str, ...], ("a",)),
    ([1, "a"], tuple[int, str], (1, "a")),
    ((1, 2), list[float], [1.0, 2.0]),
    ({1}, set[float], {1.0}),
    ([1, 1], Set[int], frozenset({1})),
    ({1}, Collection[int], [1]),
    (("a",), Sequence[str], ["a"]),
    (["a"], Iterable[str], ["a"]),
    ([1, "a", None], list, [1, "a", None]),
    ("red", Color, Color.RED),
    ("red", str | Color, Color.RED),
    ("RED", Color, Color.RED),
    ("ALSO_RED", Color, Color.RED),
    (0.5, Color, Color.GREEN),
    (Color.RED, Color, Color.RED),
    ("B", Odd, Odd["B"]),
    (3, Rights, Rights.READ | Rights.WRITE),
    ("a", Literal["a", 1], "a"),
    ("RED", Literal[Color.RED], Color.RED),
    (len, Callable[..., int], len),
    (ValueError, type[Exception], ValueError),
    (Box, type, Box),
    ({"a": 1}, Mapping[str, int], {"a": 1}),
    (3, Annotated[int, "a unit"], 3),
    (3, Depth, 3),
    (3, Bounded, 3),
    ("anything", Kept, "anything"),
    (3, "Unknown", 3),
    (3, object, 3),
    (3, Sized, 3),
]


@pytest.mark.parametrize(("value", "tp", "expected"), CONVERTED, ids=str)
def test_convert_gives_a_value_of_the_type(value: object, tp: Any, expected: object) -> None:
    assert shape(convert(value, tp)) == shape(expected)


@pytest.mark.parametrize(("value", "tp", "expected"), CONVERTED, ids=str)
def test_what_convert_gave_it_gives_again(value: object, tp: Any, expected: object) -> None:
    assert shape(convert(convert(value, tp), tp)) == shape(expected)


@pytest.mark.parametrize(
    ("value", "tp", "message"),
    [
        (True, int, "wanted int, got True (bool)"),
        (True, float, "wanted float, got True (bool)"),
        (3.0, int, "wanted int, got 3.0 (float)"),
        ("3", int | None, "wanted int | None, got '3' (str)"),
        (10**400, float, f"wanted float, got {10**400} (int)"),
        ("ab", list[str], "wanted list[str], got 'ab' (str)"),
        ({"a"}, list[str], "wanted list[str], got {'a'} (set)"),
        ([1, "a"], list[int], "wanted int, got 'a' (str)"),
        ([1], tuple[int, str], "wanted tuple[int, str], got [1] (list)"),
        (3, tuple[int, ...], "wanted tuple[int, ...], got 3 (int)"),
        ("blue", Color, "wanted one of RED, GREEN, ALSO_RED, got 'blue'"),
        (1, Literal["a", True], "wanted 'a' | True, got 1 (int)"),
        (3, Callable[[int], bool] | None, "wanted callable | None, got 3 (int)"),
        (int, type[Exception], "wanted type[Exception], got <class 'int'> (type)"),
        (None, Annotated[int, "a unit"], "wanted int, got None (NoneType)"),
        ("a", Depth, "wanted int, got 'a' (str)"),
    ],
    ids=str,
)
def test_convert_says_what_was_wanted_and_given(value: object, tp: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        convert(value, tp)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("tp", "name"),
    [
        (None, "None"),
        (int | str | None, "int | str | None"),
        (dict[str, list[Any]], "dict[str, list[any]]"),
        (Callable, "callable"),
        (Sequence[Depth], "Sequence[int]"),
        (Color, "Color"),
        ("Unknown", "any"),
    ],
    ids=str,
)
def test_a_type_has_a_name_in_messages(tp: Any, name: str) -> None:
    assert type_name(tp) == name


# What words mean.


@pytest.mark.parametrize(
    ("word", "tp", "expected"),
    [
        ("3", int, 3),
        ("3", float, 3.0),
        ("3", str, "3"),
        ("3", Any, 3),
        ("3", int | str, 3),
        ("-1e-3", float, -0.001),
        ("1_000", int, 1000),
        ("inf", float, math.inf),
        ("inf", str, "inf"),
        ("None", str | None, None),
        ("none", str, "none"),
        ("True", bool | str, True),
        ("yes", bool | str, "yes"),
        ("1", Literal[1, "1"], 1),
        ("1", Literal["1"], "1"),
        ("RED", Literal[Color.RED], Color.RED),
        ("inf", Odd, Odd["inf"]),
        ("3", Odd, Odd["3"]),
        ("red", str | Color, Color.RED),
        ("0.5", Color, Color.GREEN),
        ("red", Color | str, Color.RED),
        ("blue", Color | str, "blue"),
        ("2", Level, Level.HIGH),
        ("a/b", Path, Path("a/b")),
        ("3", Path | None, Path("3")),
        ("json:dumps", str, "json:dumps"),
        ("cuda:0", Callable[..., object] | str, "cuda:0"),
        ("builtins:len", Callable[..., object] | str, len),
        ("builtins:ValueError", type[Exception], ValueError),
    ],
    ids=str,
)
def test_a_word_means_what_its_letters_say_for_the_type(word: str, tp: Any, expected: object) -> None:
    assert shape(read(Bare(word), tp)) == shape(expected)


@pytest.mark.parametrize(
    ("items", "tp", "expected"),
    [
        (["1", "2"], list[str] | None, ["1", "2"]),
        (["1", "2"], Sequence[str], ["1", "2"]),
        (["1", "2"], tuple[int, str], (1, "2")),
        (["1", "2"], set[float] | int, {1.0, 2.0}),
        (["1", "a"], Any, [1, "a"]),
    ],
    ids=str,
)
def test_the_words_of_a_list_are_read_as_the_type_of_its_items(items: list[str], tp: Any, expected: object) -> None:
    assert shape(read([Bare(item) for item in items], tp)) == shape(expected)


@pytest.mark.parametrize(
    ("value", "tp", "message"),
    [
        (Bare("x"), int, "wanted int, got 'x' (str)"),
        (Bare("3.5"), int | None, "wanted int | None, got 3.5 (float)"),
        (Bare("x"), int | None, "wanted int | None, got 'x' (str)"),
        (Bare("yes"), bool, "wanted bool, got 'yes' (str)"),
        (Bare("blue"), Color, "wanted one of RED, GREEN, ALSO_RED, got 'blue'"),
        ("3", int, "wanted int, got '3' (str)"),
        ([Bare("1"), Bare("x")], list[int], "wanted int, got 'x' (str)"),
        ([Bare("1")], int, "wanted int, got [1] (list)"),
        (
            Bare("json:nothing"),
            Callable[..., object] | None,
            (
                "wanted something callable as 'package.module:name', got 'json:nothing' "
                "(module 'json' has no attribute 'nothing')"
            ),
        ),
        (Bare("json:__name__"), Callable[..., object], "wanted callable, got 'json' (str)"),
    ],
    ids=str,
)
def test_read_says_what_was_wanted_and_given(value: object, tp: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        read(value, tp)
    assert str(caught.value) == message


# Values as text, and back.


WRITTEN: list[tuple[object, str]] = [
    (None, "none"),
    (True, "true"),
    (-3, "-3"),
    (1e300, "1e+300"),
    (-math.inf, "-inf"),
    (math.nan, "nan"),
    ("", '""'),
    ("plain", "plain"),
    ("a/b-c.d", "a/b-c.d"),
    ("None", '"None"'),
    ("Infinity", '"Infinity"'),
    ("a,b", '"a,b"'),
    ("cuda:0", '"cuda:0"'),
    ("\n\u00e9", '"\\n\u00e9"'),
    ([1, [], ["a b"]], '[1,[],["a b"]]'),
    ({"b", "a"}, "[a,b]"),
    (Color.ALSO_RED, "RED"),
    (Odd["two words"], '"two words"'),
    (Level.LOW, "LOW"),
    (Rights.READ | Rights.WRITE, "3"),
    (Path("a") / "b", "a/b"),
    (Box.make, "tests.test_typed:Box.make"),
    (len, "builtins:len"),
    ([], "[]"),
    ([Repeat([EMPTY], times=2), EMPTY], "(Repeat{times=2}(Sequential),Sequential)"),
]


@pytest.mark.parametrize(("value", "text"), WRITTEN, ids=[text for _, text in WRITTEN])
def test_a_value_is_written_as(value: object, text: str) -> None:
    assert write(value) == text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a": 1}, "{'a': 1} (dict)"),
        (b"a", "b'a' (bytes)"),
        (Fraction(1, 2), "Fraction(1, 2) (Fraction)"),
    ],
    ids=str,
)
def test_what_has_no_text_is_an_error(value: object, shown: str) -> None:
    with pytest.raises(TypeError) as caught:
        write(value)
    assert str(caught.value) == f"{shown} cannot be written as text"


def test_a_function_that_cannot_be_imported_by_its_name_has_no_text() -> None:
    def local() -> None: ...

    for function in (local, lambda: None, Box().method, partial(len)):
        with pytest.raises(TypeError, match="cannot be written as text; what can be called must be what its module"):
            write(function)


numbers = st.integers() | st.floats()
scalars = st.none() | st.booleans() | numbers | st.text()
names = st.sampled_from(["none", "True", "inf", "-3", "1e5", "1_0", "RED", "red", "builtins:len", "a/b", "#", "(A)"])
strings = st.text() | names

TYPED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, strings),
    (int, st.integers()),
    (float, numbers),
    (bool, st.booleans()),
    (None, st.none()),
    (int | None, st.integers() | st.none()),
    (float | int, numbers),
    (str | None, strings | st.none()),
    (int | str, st.integers() | strings),
    (bool | int | float | str | None, scalars | names),
    (list[str], st.lists(strings)),
    (list[list[float]], st.lists(st.lists(numbers))),
    (list[str] | None, st.lists(strings) | st.none()),
    (Sequence[int | str], st.lists(st.integers() | strings)),
    (tuple[int, str, bool], st.tuples(st.integers(), strings, st.booleans())),
    (tuple[float, ...], st.lists(numbers)),
    (set[str], st.sets(strings)),
    (frozenset[float], st.sets(st.integers() | st.floats(allow_nan=False))),
    (Any, st.recursive(scalars | names, st.lists)),
    (Color, st.sampled_from(Color)),
    (Odd, st.sampled_from(list(Odd))),
    (Level, st.sampled_from(Level)),
    (int, st.sampled_from(Level)),
    (Word | None, st.sampled_from(Word) | st.none()),
    (str, st.sampled_from(Word)),
    (Rights, st.sampled_from([Rights(n) for n in range(4)])),
    (list[Color | int], st.lists(st.sampled_from(Color) | st.integers())),
    (Color | str, st.sampled_from(Color) | strings),
    (Path, strings.map(Path)),
    (Path | str, strings.map(Path) | strings),
    (str | Color | None, st.sampled_from(Color) | strings | st.none()),
    (
        Literal["a", 1, "1", None, True, "true", "none", "b c"],
        st.sampled_from(["a", 1, "1", None, True, "true", "none"]),
    ),
    (Callable[..., Any], st.sampled_from([len, math.sqrt, Box, Box.make, Box.method, through_text])),
    (Callable[..., Any] | str | None, st.sampled_from([len, None]) | strings),
    (list[type[Exception]], st.lists(st.sampled_from([ValueError, apass.ApassError]))),
    (Annotated[int | None, "a unit"], st.integers() | st.none()),
]


@pytest.mark.parametrize(("tp", "values"), TYPED, ids=[type_name(tp) for tp, _ in TYPED])
@settings(deadline=None)
@given(data=st.data())
def test_a_value_of_a_type_comes_back_from_its_text(
    tp: Any, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    value = convert(data.draw(values), tp)
    assert shape(through_text(value, tp)) == shape(value)


@settings(deadline=None)
@given(st.lists(st.floats()))
@example([math.nan])
def test_what_comes_back_is_equal_even_if_it_holds_nan(value: list[float]) -> None:
    assert through_text(value, list[float]) == convert(value, list[float])
