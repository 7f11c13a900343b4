"""Spaces that are written in Python."""

from random import Random

import pytest

import apass
from apass.errors import SearchError
from apass.search import Space, one_of, steps, with_choices
from apass.search.moves import random_point


def test_builders_nest() -> None:
    scale = with_choices("s.Scale", by=(0.5, 2.0), mode=..., exact=[True, False])
    text = with_choices("Repeat", f"s.Add,{one_of('s.Fail', None)}", times=range(1, 4))
    space = Space(f"{text},{steps('s.Add', scale, apass.get_pass('s.Add', n=3), least=0, most=3)}")
    assert space.text == (
        "Repeat{times=?1..3}(s.Add,?(s.Fail|)),"
        "?{0..3}(s.Add|s.Scale{by=?0.5..2.0,mode=?,exact=?(true|false)}|s.Add{n=3})"
    )
    random = Random(0)
    for _ in range(20):
        space.passes_of(random_point(space, random))


def test_errors_of_choices() -> None:
    wrong_values: tuple[object, ...] = ([], [1], (1,), range(0), range(0, 9, 2))
    for wrong in wrong_values:
        with pytest.raises(SearchError, match="the choices of option 'n' must be two or more values, or a range"):
            with_choices("s.Add", n=wrong)
    with pytest.raises(SearchError, match="a choice needs at least two alternatives, got 1"):
        one_of("s.Add")
