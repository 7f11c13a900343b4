"""Fingerprints are equal exactly for equal contents, in every process."""

import copy
import os
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass.util.fingerprint import fingerprint_value

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(SCALARS, inner, max_size=3)
        | st.frozensets(SCALARS, max_size=3)
    ),
    max_leaves=10,
)


class Color(Enum):
    RED = 1
    BLUE = 2


class Level(IntEnum):
    LOW = 1


@dataclass
class Point:
    x: object
    y: object = 0


class Pair(NamedTuple):
    x: object
    y: object


class Fingerprinted:
    def __init__(self, text: str) -> None:
        self.text = text
        self.calls = 0

    def __fingerprint__(self) -> str:
        self.calls += 1
        return self.text

    def method(self) -> None: ...


def typed(value: Any) -> object:
    """Return `value` in a form whose equality compares the types of all parts too."""
    match type(value).__name__:
        case "dict":
            return "dict", sorted((repr(typed(key)), repr(typed(inner))) for key, inner in value.items())
        case "frozenset":
            return "frozenset", sorted(repr(typed(inner)) for inner in value)
        case "list" | "tuple" as kind:
            return kind, [typed(inner) for inner in value]
        case kind:
            return kind, repr(value)


@given(VALUES)
def test_copy_has_the_same_fingerprint(value: object) -> None:
    assert fingerprint_value(copy.deepcopy(value)) == fingerprint_value(value)


@given(VALUES, VALUES)
def test_fingerprints_compare_like_values_and_types(left: object, right: object) -> None:
    assert (fingerprint_value(left) == fingerprint_value(right)) == (typed(left) == typed(right))


DIFFERENT: list[Any] = [
    *(1, 1.0, True, "1", b"1", 1j, None, "None", ..., -0.0, 0.0),
    *([], (), {}, set[int](), frozenset[int](), [[]], [()], [[], []], [1, 2], [2, 1], (1, 2), [12]),
    *(
        {"a": 1},
        {"a": 2},
        {"a": 1, "b": 2},
        OrderedDict(a=1),
        {1: "a"},
        {"1": "a"},
        [("a", 1)],
        {1, 2},
        frozenset({1, 2}),
    ),
    *(Color.RED, Color.BLUE, Level.LOW, Point(1), Point(1, 2), Point([1]), Pair(1, 2)),
    *(np.zeros(2), np.zeros(2, "f4"), np.zeros((2, 1)), np.ones(2), np.float64(0), np.int64(0)),
    *(
        Fingerprinted("a"),
        Fingerprinted("b"),
        Fingerprinted,
        Point,
        len,
        print,
        copy.copy,
        lambda: 1,
        lambda: 2,
        object(),
        object(),
    ),
    *(["ab"], ["a", "b"], "a; b", ["a; int 1"], float("inf"), float("nan")),
]


def test_different_values_have_different_fingerprints() -> None:
    prints = [fingerprint_value(value) for value in DIFFERENT]
    assert {text: prints.count(text) for text in prints if prints.count(text) > 1} == {}
    assert all(len(text) == 32 for text in prints)


@pytest.mark.parametrize(
    "make",
    [
        lambda: {"b": 1, "a": [2, {"x": {3, 1, 2}}]},
        lambda: Point(Pair(Color.RED, b"x"), np.arange(6).reshape(2, 3)),
        lambda: np.arange(6).reshape(2, 3)[:, ::2],
        lambda: Fingerprinted("a"),
        lambda: Level.LOW,
    ],
)
def test_new_equal_value_has_the_same_fingerprint(make: Any) -> None:
    assert fingerprint_value(make()) == fingerprint_value(make())


def test_order_of_a_mapping_does_not_matter() -> None:
    assert fingerprint_value({"a": 1, "b": 2, 3: 4}) == fingerprint_value({3: 4, "b": 2, "a": 1})


def test_methods_of_equal_objects_have_equal_fingerprints() -> None:
    left, right, other = Fingerprinted("same"), Fingerprinted("same"), Fingerprinted("other")
    assert fingerprint_value(left.method) == fingerprint_value(right.method) != fingerprint_value(other.method)


@pytest.mark.process
@pytest.mark.slow
def test_fingerprint_does_not_depend_on_the_process() -> None:
    values = "[{'a', 'b'}, {'b': Color.RED, 'a': len}, Fingerprinted]"
    code = f"from tests.util.test_fingerprint import *; print(*map(fingerprint_value, {values}))"
    root = Path(__file__).parents[2]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "01"
    }
    assert len(outputs) == 1


WRAPS: dict[str, Callable[[Any], Any]] = {
    "list": lambda inner: [inner],
    "dict": lambda inner: {"x": inner},
    "dataclass": Point,
    "frozenset": lambda inner: frozenset({inner}),
}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_deep_nesting_is_supported(wrap: Any) -> None:
    deep: list[Any] = [0, 0, 1]
    for index, value in enumerate(deep):
        for _ in range(20_000):
            value = wrap(value)
        deep[index] = value
    prints = [fingerprint_value(value) for value in deep]
    assert (prints[0] == prints[1], prints[0] == prints[2]) == (True, False)


def test_cycles_are_supported() -> None:
    def ring(length: int, inside: object) -> list[Any]:
        first: list[Any] = [inside]
        last = first
        for _ in range(length - 1):
            last = [inside, last]
        first.append(last)
        return first

    prints = [fingerprint_value(ring(length, inside)) for length, inside in ((3, "a"), (3, "a"), (3, "b"), (4, "a"))]
    assert (prints[0] == prints[1], len(set(prints))) == (True, 3)


def test_shared_part_equals_two_equal_parts() -> None:
    shared = [1, 2]
    assert fingerprint_value([shared, shared]) == fingerprint_value([[1, 2], [1, 2]])


def test_shared_part_is_not_visited_once_per_path() -> None:
    leaf = Fingerprinted("leaf")
    value: Any = leaf
    for _ in range(12):
        value = (value, value)
    fingerprint_value(value)
    # There are 2**12 paths to the leaf.
    assert leaf.calls <= 2


class Opaque:
    """An object that is compared by identity."""


class Slotted:
    """An object that is compared by identity and does not support weak references."""

    __slots__ = ("value",)


@pytest.mark.parametrize("kind", [Opaque, Slotted])
def test_fingerprint_of_a_freed_object_is_not_reused(kind: type) -> None:
    value = kind()
    assert fingerprint_value([value]) == fingerprint_value([value])
    assert len({fingerprint_value(kind()) for _ in range(3000)}) == 3000


@pytest.mark.process
def test_identity_fingerprints_differ_between_processes() -> None:
    script = "from apass.util.fingerprint import fingerprint_value as f\nclass O: pass\nprint(f(O()), f(O().__init__))"
    run = [sys.executable, "-c", script]
    first, second = (subprocess.check_output(run, text=True).split() for _ in range(2))
    assert not {*first} & {*second}


def adder(number: Any, default: Any = 0) -> Any:
    """Return a function with a closure and a default."""

    def add(value: Any, more: Any = default) -> Any:
        return value + number + more

    return add


def class_of(number: int) -> Any:
    """Return a local class whose method has a closure."""

    class Adder:
        def add(self, value: int) -> int:
            return value + number

    return Adder


def test_functions_differ_by_closure_and_defaults() -> None:
    functions = [adder(1), adder(2), adder(1, 3), adder([1]), class_of(1), class_of(2), partial(adder(1), 1)]
    assert len(set(map(fingerprint_value, functions))) == len(functions)
    copies = [adder(1), adder(2), adder(1, 3), adder([1]), class_of(1), class_of(2), partial(adder(1), 1)]
    assert list(map(fingerprint_value, copies)) == list(map(fingerprint_value, functions))


def test_recursive_function_has_a_fingerprint() -> None:
    def make(step: int) -> Any:
        def count(value: int) -> int:
            return 0 if value < 1 else count(value - step)

        return count

    assert fingerprint_value(make(1)) == fingerprint_value(make(1)) != fingerprint_value(make(2))


def test_unknown_objects_are_reported() -> None:
    unknown: list[object] = []
    thing = object()
    fingerprint_value([adder(thing), 1, len, Fingerprinted("a"), copy], unknown)
    assert unknown == [thing]


def test_closures_of_one_code_differ_by_contents() -> None:
    def make(number: int, default: int = 0) -> Callable[[], int]:
        def compute(value: int = default) -> int:
            return value + number

        return compute

    values = [fingerprint_value(make(*numbers)) for numbers in ((1,), (1,), (2,), (1, 3), (2,))]
    assert values[0] == values[1]
    assert values[2] == values[4]
    assert len(set(values)) == 3
