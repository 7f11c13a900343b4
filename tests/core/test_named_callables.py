"""`register_callable`: the callables that a pipeline's text may name."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import apass
from apass.core.named_callables import callable_name, find_callable
from tests.helpers.distributions import write_distribution

NOT_CALLABLE: Any = 3


@pytest.fixture(autouse=True)
def clean_registry() -> Iterator[None]:
    """Unregister the callables that a test registers."""
    before = set(apass.list_callables())
    yield
    for name in set(apass.list_callables()) - before:
        apass.unregister_callable(name)


def is_large(mod: dict[str, Any]) -> bool:
    return len(mod) > 1


def test_registration_has_three_forms() -> None:
    assert apass.register_callable("a.large", is_large) is is_large
    assert apass.register_callable(is_large) is is_large
    assert apass.register_callable("b.large")(is_large) is is_large
    assert {"a.large", "is_large", "b.large"} <= set(apass.list_callables())
    assert [find_callable(name) for name in ("a.large", "is_large")] == [is_large, is_large]
    assert callable_name(is_large) == "a.large"
    apass.unregister_callable("a.large")
    assert callable_name(is_large) == "is_large"
    assert callable_name(len) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: apass.register_callable("is_large", NOT_CALLABLE), "something callable as 'is_large', got 3"),
        (lambda: apass.register_callable(lambda: True), "invalid name of a callable '<lambda>'; begin with"),
        *(
            (lambda name=name: apass.register_callable(name, is_large), f"invalid name of a callable {name!r}; begin")
            for name in ("", "none", "3", "inf", "a b", "a:b", "a,b")
        ),
    ],
)
def test_invalid_registration_raises(call: Callable[[], object], message: str) -> None:
    with pytest.raises(apass.errors.PassRegistrationError) as caught:
        call()
    assert message in str(caught.value)


def test_name_can_be_registered_once() -> None:
    apass.register_callable(is_large)
    with pytest.raises(
        apass.errors.PassRegistrationError, match="a callable named 'is_large' is already registered; call"
    ):
        apass.register_callable("is_large", len)


def test_unknown_name_error_suggests_nearest() -> None:
    apass.register_callable(is_large)
    for call in (find_callable, apass.unregister_callable):
        with pytest.raises(
            apass.errors.UnknownCallableError, match=r"under the name 'is_lrage'; did you mean 'is_large'\?$"
        ):
            call("is_lrage")


def test_callable_of_a_plug_in_is_found(packages: Path) -> None:
    """A plug-in that registers passes may register callables under the same pattern."""
    (packages / "my_rules.py").write_text("import apass\napass.register_callable('my.is_large', bool)\n")
    write_distribution(packages, "my_rules", "[apass.pass_modules]\nmy.* = my_rules\n")
    try:
        assert find_callable("my.is_large") is bool
    finally:
        sys.modules.pop("my_rules", None)
