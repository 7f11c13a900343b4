"""`write` and `read` are inverses through the text of a pipeline."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import apass
from apass.core.named_callables import value_text
from apass.passes.repeat import Repeat
from apass.pipelines.parser import parse_pipeline
from apass.util.typed_values import convert, type_name
from tests.helpers.typed_values import Box, Color, Level, Odd, Rights, Word, shape

EMPTY: apass.Sequential[Any] = apass.Sequential([])

NAMED: list[Any] = [len, math.sqrt, Box, Box.make, Box.method, ValueError, apass.ApassError]
"""Callables that a text may name."""


@pytest.fixture(scope="module", autouse=True)
def named_callables() -> Iterator[None]:
    """Register the callables, each as `typed.NAME`."""
    for function in NAMED:
        apass.register_callable(f"typed.{function.__name__}", function)
    yield
    for function in NAMED:
        apass.unregister_callable(f"typed.{function.__name__}")


def through_text(value: object, tp: Any) -> Any:
    """Write `value`, parse it as an option of type `tp`, and return the result."""
    seen: list[object] = []

    def factory(value: Any) -> apass.Pass[Any]:
        seen.append(value)
        return apass.module_pass(lambda mod, ctx: mod, opt_level=0, name="Probe")

    factory.__annotations__["value"] = tp
    apass.register_pass("Probe", factory)
    try:
        parse_pipeline(f"Probe{{value={value_text(value)}}}")
    finally:
        apass.unregister_pass("Probe")
    return seen[0]


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
    ({}, "{}"),
    ({"nn.conv2d": ["NHWC", "a b"], "a:b": {"": 1}}, '{nn.conv2d=[NHWC,"a b"],"a:b"={""=1}}'),
    ({Color.ALSO_RED: 1, None: 2, 3: 4}, "{RED=1,none=2,3=4}"),
    (Color.ALSO_RED, "RED"),
    (Odd["two words"], '"two words"'),
    (Level.LOW, "LOW"),
    (Rights.READ | Rights.WRITE, "3"),
    (Path("a") / "b", "a/b"),
    (Box.make, "typed.make"),
    ([len], "[typed.len]"),
    ({"a": len}, "{a=typed.len}"),
    ([], "[]"),
    ([Repeat([EMPTY], times=2), EMPTY], "(Repeat{times=2}(Sequential),Sequential)"),
]


@pytest.mark.parametrize(("value", "text"), WRITTEN, ids=[text for _, text in WRITTEN])
def test_write_returns_the_text_of_a_value(value: object, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a": b"a"}, "b'a' (bytes)"),
        (b"a", "b'a' (bytes)"),
        (Fraction(1, 2), "Fraction(1, 2) (Fraction)"),
    ],
    ids=str,
)
def test_write_rejects_values_without_text(value: object, shown: str) -> None:
    with pytest.raises(TypeError) as caught:
        value_text(value)
    assert str(caught.value) == f"{shown} cannot be written as text"


def test_write_rejects_a_collection_as_key() -> None:
    with pytest.raises(TypeError, match=r"^\(1, 2\) \(tuple\) cannot be written as text, as the key of a mapping$"):
        value_text({(1, 2): 3})


def test_write_rejects_callables_without_a_name() -> None:
    for function in (abs, lambda: None, Box().method, partial(len)):
        with pytest.raises(TypeError, match=r"cannot be written as text; give it a name with apass\.register_callable"):
            value_text(function)


numbers = st.integers() | st.floats()
scalars = st.none() | st.booleans() | numbers | st.text()
names = st.sampled_from(["none", "True", "inf", "-3", "1e5", "1_0", "RED", "red", "builtins:len", "a/b", "#", "(A)"])
strings = st.text() | names


paths = strings.map(Path)

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
    (Any, st.recursive(scalars | names, lambda inner: st.dictionaries(strings | st.integers(), inner))),
    (dict[str, list[str]], st.dictionaries(strings, st.lists(strings))),
    (Mapping[int, float] | None, st.dictionaries(st.integers(), numbers) | st.none()),
    (
        dict[Color, dict[Path, int | str]],
        st.dictionaries(st.sampled_from(Color), st.dictionaries(paths, st.integers())),
    ),
    (dict[str, Any] | list[int], st.dictionaries(strings, scalars) | st.lists(st.integers())),
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
    (Callable[..., Any], st.sampled_from([len, math.sqrt, Box, Box.make, Box.method])),
    (Callable[..., Any] | str | None, st.sampled_from([len, None]) | strings | st.just("typed.len")),
    (list[type[Exception]], st.lists(st.sampled_from([ValueError, apass.ApassError]))),
    (Annotated[int | None, "a unit"], st.integers() | st.none()),
]


@pytest.mark.parametrize(("tp", "values"), TYPED, ids=[type_name(tp) for tp, _ in TYPED])
@settings(deadline=None)
@given(data=st.data())
def test_text_restores_a_value_of_the_type(tp: Any, values: st.SearchStrategy[Any], data: st.DataObject) -> None:
    value = convert(data.draw(values), tp)
    assert shape(through_text(value, tp)) == shape(value)


@settings(deadline=None)
@given(st.lists(st.floats()))
@example([math.nan])
def test_text_restores_a_list_with_nan(value: list[float]) -> None:
    assert through_text(value, list[float]) == convert(value, list[float])
