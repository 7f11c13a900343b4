"""Values as tagged JSON."""

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass.util.tagged_json import reachable_types, read_tagged, write_tagged


class Kind(Enum):
    FUNCTION = 1
    LOOP = "loop"


@dataclass(frozen=True)
class Expr:
    kind: Kind
    operands: tuple["Expr", ...] = ()


@dataclass(frozen=True)
class Constant(Expr):
    value: Any = None


@dataclass(frozen=True)
class Func:
    name: str
    body: "Expr | None"
    attrs: dict[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True)
class Other:
    name: str


TYPES = reachable_types([Func])

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.sampled_from(Kind)
)
KEYS = st.one_of(st.text(), st.integers(), st.tuples(st.integers(), st.text()), st.just("!"))
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(KEYS, inner),
        st.sets(st.integers()),
        st.frozensets(st.text()),
        st.builds(Constant, st.sampled_from(Kind), value=inner),
        st.builds(Func, st.text(), st.none(), st.dictionaries(st.text(), inner)),
    ),
    max_leaves=20,
)


@given(VALUES)
def test_read_restores_what_was_written(value: Any) -> None:
    text = write_tagged(value, TYPES)
    restored = read_tagged(text, TYPES)
    # The text shows the types too: `True == 1`.
    assert (restored, write_tagged(restored, TYPES)) == (value, text)


def test_special_floats_are_restored() -> None:
    restored = read_tagged(write_tagged([math.inf, -math.inf, -0.0, math.nan], []), [])
    assert str(restored) == "[inf, -inf, -0.0, nan]"


def test_types_are_found_by_the_fields() -> None:
    assert {Func, Expr, Constant, Kind} == TYPES
    assert reachable_types([dict[str, list[Func]], int]) == TYPES


@pytest.mark.parametrize("value", [object(), Other("x"), len, [object()], {"a": Other("x")}])
def test_other_value_is_rejected(value: object) -> None:
    with pytest.raises(TypeError, match=r"^a value of type \w+ cannot be written$"):
        write_tagged(value, TYPES)


def test_value_that_contains_itself_is_rejected() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(TypeError, match="nested too deeply, or contains itself"):
        write_tagged(value, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (write_tagged(Other("x"), [Other]), r"the class 'tests.util.test_tagged_json:Other' is not among those"),
        ('{"!": ["os:system", "true"]}', r"the class 'os:system' is not among those"),
        ('{"!": ["tests.util.test_tagged_json:Func", {"title": "f"}]}', "this is not the text of a value: TypeError"),
        ('{"!": ["tests.util.test_tagged_json:Kind", "NONE"]}', "this is not the text of a value: KeyError"),
        ('{"!": ["tuple", 3]}', "this is not the text of a value: TypeError"),
        ('{"!": ["bytes", "%"]}', "base64"),
        ('{"!": []}', "not enough values to unpack"),
        ('{"!": ["set", [[1]]]}', "unhashable"),
        ("[" * 100_000, "nested too deeply"),
        ("nothing", "Expecting value"),
    ],
)
def test_text_of_a_stranger_is_a_value_error(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_tagged(text, TYPES)
