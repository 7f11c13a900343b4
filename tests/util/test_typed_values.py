"""`convert` for values of declared types, and `read` for words."""

import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NewType, Protocol, TypeVar

import pytest

from apass.util.typed_values import Bare, convert, read, type_name
from tests.helpers.typed_values import Box, Color, Level, Odd, Rights, Word, shape

Unbounded = TypeVar("Unbounded")
Bounded = TypeVar("Bounded", bound=int)
Depth = NewType("Depth", int)


class Sized(Protocol):
    def size(self) -> int: ...


# Results of `convert`.

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
    ("anything", Unbounded, "anything"),
    (3, "Unknown", 3),
    (3, object, 3),
    (3, Sized, 3),
]


@pytest.mark.parametrize(("value", "tp", "expected"), CONVERTED, ids=str)
def test_convert_returns_a_value_of_the_type(value: object, tp: Any, expected: object) -> None:
    assert shape(convert(value, tp)) == shape(expected)


@pytest.mark.parametrize(("value", "tp", "expected"), CONVERTED, ids=str)
def test_convert_is_idempotent(value: object, tp: Any, expected: object) -> None:
    assert shape(convert(convert(value, tp), tp)) == shape(expected)


@pytest.mark.parametrize(
    ("value", "tp", "message"),
    [
        (True, int, "expected int, got True (bool)"),
        (True, float, "expected float, got True (bool)"),
        (3.0, int, "expected int, got 3.0 (float)"),
        ("3", int | None, "expected int | None, got '3' (str)"),
        (10**400, float, f"expected float, got {10**400} (int)"),
        ("ab", list[str], "expected list[str], got 'ab' (str)"),
        ({"a"}, list[str], "expected list[str], got {'a'} (set)"),
        ([1, "a"], list[int], "expected int, got 'a' (str)"),
        ([1], tuple[int, str], "expected tuple[int, str], got [1] (list)"),
        (3, tuple[int, ...], "expected tuple[int, ...], got 3 (int)"),
        ("blue", Color, "expected one of RED, GREEN, ALSO_RED, got 'blue'"),
        (1, Literal["a", True], "expected 'a' | True, got 1 (int)"),
        (3, Callable[[int], bool] | None, "expected callable | None, got 3 (int)"),
        (int, type[Exception], "expected type[Exception], got <class 'int'> (type)"),
        (None, Annotated[int, "a unit"], "expected int, got None (NoneType)"),
        ("a", Depth, "expected int, got 'a' (str)"),
    ],
    ids=str,
)
def test_convert_error_names_type_and_value(value: object, tp: Any, message: str) -> None:
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
def test_type_name_is_short_and_readable(tp: Any, name: str) -> None:
    assert type_name(tp) == name


# Words.


NAMED: dict[str, object] = {"length": len, "invalid": ValueError}
"""Callables that a text may name."""


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
        ("length", Callable[..., object] | str, len),
        ("length", Callable[..., object] | None, len),
        ("none", Callable[..., object] | None, None),
        ("invalid", type[Exception], ValueError),
    ],
    ids=str,
)
def test_type_decides_the_meaning_of_a_word(word: str, tp: Any, expected: object) -> None:
    assert shape(read(Bare(word), tp, NAMED.__getitem__)) == shape(expected)


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
def test_words_of_a_list_get_the_item_type(items: list[str], tp: Any, expected: object) -> None:
    assert shape(read([Bare(item) for item in items], tp)) == shape(expected)


@pytest.mark.parametrize(
    ("value", "tp", "message"),
    [
        (Bare("x"), int, "expected int, got 'x' (str)"),
        (Bare("3.5"), int | None, "expected int | None, got 3.5 (float)"),
        (Bare("x"), int | None, "expected int | None, got 'x' (str)"),
        (Bare("yes"), bool, "expected bool, got 'yes' (str)"),
        (Bare("blue"), Color, "expected one of RED, GREEN, ALSO_RED, got 'blue'"),
        ("3", int, "expected int, got '3' (str)"),
        ([Bare("1"), Bare("x")], list[int], "expected int, got 'x' (str)"),
        ([Bare("1")], int, "expected int, got [1] (list)"),
        (Bare("length"), Callable[..., object] | None, "no callable has the name 'length'"),
        (Bare("json:dumps"), type[Exception], "no callable has the name 'json:dumps'"),
    ],
    ids=str,
)
def test_read_error_names_type_and_value(value: object, tp: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        read(value, tp)
    assert str(caught.value) == message


@pytest.mark.parametrize("word", ["my_notes", "my_notes:name", "my_notes.name"])
@pytest.mark.parametrize("tp", [Callable[..., object], type[Exception]])
def test_read_imports_no_module(word: str, tp: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "my_notes.py").write_text("raise RuntimeError('imported')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert read(Bare(word), tp | str) == word
    with pytest.raises(TypeError, match=f"no callable has the name '{word}'"):
        read(Bare(word), tp)


@dataclass(frozen=True)
class Limits:
    """A config option of several values."""

    depth: int
    ratio: float = 0.5
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.depth < 0:
            raise ValueError("depth must not be negative")


def test_mapping_becomes_a_dataclass() -> None:
    assert convert({"depth": 3, "ratio": 1, "names": ["a"]}, Limits) == Limits(3, 1.0, ("a",))
    assert convert({"depth": 3}, Limits | None) == Limits(3)
    assert convert([{"depth": 1}], list[Limits]) == [Limits(1)]
    limits = Limits(1)
    assert convert(limits, Limits) is limits


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"deep": 3}, "Limits has no field 'deep'; it has depth, names, ratio"),
        ({"depth": "3"}, "field 'depth' of Limits: expected int, got '3' (str)"),
        ({}, "Limits cannot be made of {}: "),
        ({"depth": -1}, "Limits cannot be made of {'depth': -1}: depth must not be negative"),
        ({1: 2}, "Limits has no field 1; it has depth, names, ratio"),
    ],
)
def test_invalid_mapping_for_dataclass_is_rejected(value: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        convert(value, Limits)
    assert str(caught.value).startswith(message)
