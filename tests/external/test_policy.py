"""Policies: values that are checked."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from apass.external import Backoff, Breaker, Policy, Rate


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Policy(timeout=0), "Policy(timeout=...) must be a number above 0, not 0"),
        (lambda: Policy(timeout=float("nan")), "Policy(timeout=...) must be a number above 0, not nan"),
        (lambda: Policy(timeout=True), "Policy(timeout=...) must be a number above 0, not True"),
        (lambda: Policy(attempts=0), "Policy(attempts=...) must be an int of at least 1, not 0"),
        (lambda: Policy(attempts=True), "Policy(attempts=...) must be an int of at least 1, not True"),
        (lambda: Policy(concurrency=-1), "Policy(concurrency=...) must be an int of at least 1, not -1"),
        (lambda: Policy(hedge_after=-0.5), "Policy(hedge_after=...) must be a number above 0, not -0.5"),
        (lambda: Rate(questions=0), "Rate(questions=...) must be a number above 0, not 0"),
        (lambda: Rate(questions=1, seconds=0), "Rate(seconds=...) must be a number above 0, not 0"),
        (lambda: Rate(questions=1, burst=0), "Rate(burst=...) must be an int of at least 1, not 0"),
        (lambda: Breaker(failures=0), "Breaker(failures=...) must be an int of at least 1, not 0"),
        (lambda: Breaker(rest=-1), "Breaker(rest=...) must be a number above 0, not -1"),
        (lambda: Backoff(initial=-1), "Backoff(initial=...) must be a number of at least 0, not -1"),
        (lambda: Backoff(maximum=-1), "Backoff(maximum=...) must be a number of at least 0, not -1"),
        (lambda: Backoff(jitter=-1), "Backoff(jitter=...) must be a number of at least 0, not -1"),
    ],
)
def test_a_limit_that_is_none_is_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=r"must be") as caught:
        make()
    assert str(caught.value) == says


@pytest.mark.parametrize("given", [{"rate": 5}, {"breaker": 5}, {"backoff": 0.5}])
def test_a_part_of_a_policy_is_of_its_own_type(given: Any) -> None:
    (name,) = given
    with pytest.raises(TypeError, match=rf"Policy\({name}=...\) must be a {name.capitalize()}, not "):
        Policy(**given)


def test_policies_are_values() -> None:
    assert Policy(attempts=2) == Policy(attempts=2)
    assert hash(Policy(rate=Rate(questions=2))) == hash(Policy(rate=Rate(questions=2)))
    with pytest.raises(FrozenInstanceError):
        setattr(Policy(), "timeout", 3)  # noqa: B010  the type checkers know
