"""Spaces: what their texts mean, their points, and errors."""

import math
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass.errors import PipelineSyntaxError, SearchError, UnknownPassError
from apass.search import Space
from apass.search.moves import changed, crossed, neighbours, random_point
from apass.search.template import Choice, Number, Steps, domains_of

SPACES = (
    "s.Add{n=?1..3}",
    "s.Scale{by=?0.5..2.0,mode=?,exact=?}",
    "s.Scale{by=?1.0..1000.0:log},s.Add{n=?1..1024:log}",
    "?(s.Add|s.Scale,s.Add|)",
    "?{0..3}(s.Add|s.Scale{mode=?}|)",
    "?{1..3,once}(s.Add|s.Scale|s.Fail)",
    "Repeat{times=?1..4}(s.Add{n=?(1|5)},?(s.Scale{by=?1..3}|s.Fail|)),?{2}(s.Add|s.Scale)",
    "?{1..2}(Repeat{times=2}(?{1..2}(s.Add|s.Scale))|s.Fail)",
)


@given(st.sampled_from(SPACES), st.integers(0, 1000))
def test_points_make_valid_pipelines(text: str, seed: int) -> None:
    space, random = Space(text), Random(seed)
    point = random_point(space, random)
    pipeline = space.text_of(point)
    assert str(space.passes_of(point)) == str(apass.parse_pipeline(pipeline)) or not pipeline
    for site in space.sites(point):
        assert site.put(site.value) == point
    named = space.named(point)
    assert space.draw(lambda name, _: named[name][1]) == point
    assert named.keys() <= dict(domains_of(space.items)).keys()
    assert space.from_json(_lists(point)) == point
    found = space.point_of(pipeline)
    assert found is not None
    assert space.text_of(found) == pipeline


@given(st.sampled_from(SPACES), st.integers(0, 1000))
def test_moves_stay_within_the_space(text: str, seed: int) -> None:
    space, random = Space(text), Random(seed)
    one, other = random_point(space, random), random_point(space, random)
    moved = [changed(space, one, random), crossed(space, one, other, random), *neighbours(space, one)]
    for point in moved:
        assert space.from_json(_lists(point)) == point


def _lists(value: object) -> object:
    return list(map(_lists, cast("tuple[object, ...]", value))) if isinstance(value, tuple) else value


def test_sizes_of_spaces() -> None:
    sizes = {
        "s.Add{n=?1..3}": 3,
        "s.Scale{mode=?,exact=?}": 4,
        "?(s.Add{n=?1..3}|s.Scale|)": 5,
        "?{0..2}(s.Add|s.Scale)": 1 + 2 + 4,
        "?{2}(s.Add|s.Scale)": 4,
        "?{0..9,once}(s.Add|s.Scale|s.Fail)": 1 + 3 + 6 + 6,
        "Repeat{times=?1..4}(?(s.Add|s.Scale))": 8,
        "s.Scale{by=?0.0..1.0}": math.inf,
        "?{1..12}(s.Add|s.Scale|s.Fail)": sum(3**length for length in range(1, 13)),
    }
    assert {text: Space(text).size for text in sizes} == sizes


def test_size_is_the_number_of_points() -> None:
    space = Space("?{0..2,once}(s.Add{n=?1..2}|s.Scale{mode=?}|s.Fail)")
    random = Random(0)
    assert len({random_point(space, random) for _ in range(3000)}) == space.size


def test_texts_of_points() -> None:
    space = Space("Repeat{times=?1..2}(s.Add,?(s.Fail|)),?{0..2}(s.Scale{mode=?})")
    random = Random(0)
    texts = {space.text_of(random_point(space, random)) for _ in range(300)}
    assert {text for text in texts if "Scale" not in text} == {
        "Repeat{times=1}(s.Add,s.Fail)",
        "Repeat{times=1}(s.Add)",
        "Repeat{times=2}(s.Add,s.Fail)",
        "Repeat{times=2}(s.Add)",
    }
    assert "Repeat{times=1}(s.Add),s.Scale{mode=up},s.Scale{mode=down}" in texts


def test_combinator_without_passes_is_left_out() -> None:
    space = Space("s.Add,Repeat{times=2}(?(s.Scale|))")
    assert space.text_of(space.draw(lambda _name, _domain: 1)) == "s.Add"


def test_point_of_text() -> None:
    space = Space("?{1..4}(s.Add|s.Add,s.Scale|s.Scale{by=3.0})")
    for text in ("s.Add,s.Add,s.Scale,s.Scale{by=3.0}", "s.Add", "s.Scale{by=3.0},s.Add,s.Scale"):
        point = space.point_of(text)
        assert point is not None
        assert space.text_of(point) == text
    assert space.point_of("s.Fail") is None
    assert space.point_of("s.Add,s.Add,s.Add,s.Add,s.Add") is None
    assert Space("?(s.Add|)").point_of("?(s.Fail|s.Scale)") is None
    many = Space("?{1..60}(?(First(Sequential)|Sequential)|Sequential|First(Sequential)|?(s.Add|s.Scale))")
    assert many.point_of("Sequential," * 50 + "s.Fail") is None  # there are 2 ** 50 ways to begin
    once = Space("?{0..2,once}(s.Add{n=?1..3}|s.Scale)")
    assert once.point_of("s.Add{n=3},s.Scale") is not None
    assert [once.point_of(text) for text in ("s.Add{n=4}", "s.Add{n=1.5}", "s.Add", "s.Scale,s.Scale")] == [None] * 4


def test_holes_have_unique_names() -> None:
    space = Space("s.Add{n=?1..2},s.Add{n=?1..2},?(s.Add|s.Scale),?{2}(s.Add|s.Scale{mode=?})")
    names = [name for name, _ in domains_of(space.items)]
    assert names == [
        *("s.Add.n", "s.Add.n#2", "choice"),
        *("steps[0]", "steps[0].s.Scale.mode", "steps[1]", "steps[1].s.Scale.mode"),
    ]
    assert [type(site.hole) for site in space.sites(random_point(space, Random(0)))][:4] == [
        *(Number, Number, Choice, Steps)
    ]


def test_comments_and_native_passes_in_spaces() -> None:
    space = Space("?{1..2}(s.Add | # the first\n s.Scale )")
    assert space.size == 6


ERRORS = (
    ("s.Add", "has no choices; write a hole"),
    ("?(s.Add)", "has no choices"),
    ("?", "expected '(' with alternatives, or '{' with the number of steps"),
    ("?(s.Add|", "expected the name of a pass, got the end"),
    ("?(s.Add|s.Scale", "expected '|' or ')' to close the '(' at character 1"),
    ("s.Add|s.Scale", "expected ',' or the end of the text, got '|'"),
    ("?{}(s.Add|s.Scale)", "expected the number of steps, as 1..12, got '}'"),
    ("?{a..b}(s.Add|s.Scale)", "expected the number of steps, as 1..12, got 'a..b'"),
    ("?{3..1}(s.Add|s.Scale)", "the smaller one first, got 3..1"),
    ("?{1..9999}(s.Add|s.Scale)", "from 0 to 1000"),
    ("?{1..2,twice}(s.Add|s.Scale)", "expected 'once'"),
    ("s.Add{n=?}", "option 'n' of pass 's.Add' is of type int, which has no list of values"),
    ("s.Add{n=?x}", "expected a range of numbers, as ?1..4"),
    ("s.Add{n=?4..1}", "expected the smaller number first, got 4..1"),
    ("s.Scale{by=?0.0..1.0:log}", "expected a positive number"),
    ("s.Add{n=?0.5..1.5}", "expected int, got 0.5"),
    ("?(s.Add{n=?(1|x)}|s.Scale)", "expected int, got 'x'"),
    ("?(s.Add|s.Missing)", "no pass is registered under the name 's.Missing'"),
    ("?(s.Add|s.Scale{what=1})", "has no option 'what'"),
    ("s.Missing{n=?}", "no pass is registered under the name 's.Missing'"),
    ("llvm:?(gvn|sroa)", "write llvm:(...)"),
)


def test_errors_of_spaces() -> None:
    for text, message in ERRORS:
        with pytest.raises((PipelineSyntaxError, SearchError, UnknownPassError)) as caught:
            Space(text)
        assert message in str(caught.value), text


def test_pipeline_with_hole_names_search() -> None:
    with pytest.raises(PipelineSyntaxError, match="choices are for the space of `apass search`"):
        apass.parse_pipeline("?(s.Add|s.Scale)")


def test_foreign_points_are_rejected() -> None:
    space = Space("?{1..3}(s.Add|s.Scale)")
    foreign: list[Any] = [None, 3, [], [[0, []], 1], [[[5, []]]], [[[-1, []]]], [[[True, []]]], [[["0", []]]]]
    foreign.append([[[0, []]] * 9])
    for point in foreign:
        with pytest.raises(SearchError, match="does not belong to the space"):
            space.from_json(point)
