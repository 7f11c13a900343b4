"""Policies: validation and equality."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from apass.external import Backoff, Breaker, Policy, Rate


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Policy(timeout=0), "Policy(timeout=...) must be a positive number, got 0"),
        (lambda: Policy(timeout=float("nan")), "Policy(timeout=...) must be a positive number, got nan"),
        (lambda: Policy(timeout=True), "Policy(timeout=...) must be a positive number, got True"),
        (lambda: Policy(attempts=0), "Policy(attempts=...) must be a positive int, got 0"),
        (lambda: Policy(attempts=True), "Policy(attempts=...) must be a positive int, got True"),
        (lambda: Policy(concurrency=-1), "Policy(concurrency=...) must be a positive int, got -1"),
        (lambda: Policy(hedge_after=-0.5), "Policy(hedge_after=...) must be a positive number, got -0.5"),
        (lambda: Rate(questions=0), "Rate(questions=...) must be a positive number, got 0"),
        (lambda: Rate(questions=1, seconds=0), "Rate(seconds=...) must be a positive number, got 0"),
        (lambda: Rate(questions=1, burst=0), "Rate(burst=...) must be a positive int, got 0"),
        (lambda: Breaker(failures=0), "Breaker(failures=...) must be a positive int, got 0"),
        (lambda: Breaker(rest=-1), "Breaker(rest=...) must be a positive number, got -1"),
        (lambda: Backoff(initial=-1), "Backoff(initial=...) must be a non-negative number, got -1"),
        (lambda: Backoff(maximum=-1), "Backoff(maximum=...) must be a non-negative number, got -1"),
        (lambda: Backoff(jitter=-1), "Backoff(jitter=...) must be a non-negative number, got -1"),
    ],
)
def test_invalid_limit_is_rejected(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=r"must be") as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize("arguments", [{"rate": 5}, {"breaker": 5}, {"backoff": 0.5}])
def test_part_of_wrong_type_is_rejected(arguments: Any) -> None:
    (name,) = arguments
    with pytest.raises(TypeError, match=rf"Policy\({name}=...\) must be a {name.capitalize()}, got "):
        Policy(**arguments)


def test_policies_are_immutable_values() -> None:
    assert Policy(attempts=2) == Policy(attempts=2)
    assert hash(Policy(rate=Rate(questions=2))) == hash(Policy(rate=Rate(questions=2)))
    with pytest.raises(FrozenInstanceError):
        setattr(Policy(), "timeout", 3)  # noqa: B010  type checkers reject the assignment
