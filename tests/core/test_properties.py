"""Properties of modules: registration and lookup."""

import pytest

import apass
from apass.core.properties import find_property


def test_register_property_returns_an_analysis() -> None:
    @apass.register_property("test_properties.small")
    def is_small(mod: dict[str, int]) -> bool:
        return len(mod) < 2

    assert find_property("test_properties.small") is is_small
    assert find_property(is_small) is is_small
    assert "test_properties.small" in apass.list_properties()
    assert repr(is_small) == "<analysis test_properties.small>"


def test_same_check_may_be_registered_again() -> None:
    apass.register_property("test_properties.again", _always)
    again = apass.register_property("test_properties.again", _always)
    assert find_property("test_properties.again") is again


def test_other_check_of_a_name_is_an_error() -> None:
    apass.register_property("test_properties.taken", _always)
    with pytest.raises(apass.errors.PassRegistrationError) as caught:
        apass.register_property("test_properties.taken", _never)
    assert str(caught.value) == (
        f"the property 'test_properties.taken' is already registered, with the check {_always!r}"
    )


def test_name_must_be_a_string() -> None:
    name: str = _always  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    with pytest.raises(apass.errors.PassRegistrationError, match="name of a property must be a string"):
        apass.register_property(name)


def test_unknown_property_is_suggested() -> None:
    apass.register_property("test_properties.known", _always)
    with pytest.raises(apass.errors.UnknownPropertyError) as caught:
        find_property("test_properties.know")
    assert str(caught.value) == ("unknown property 'test_properties.know'; did you mean 'test_properties.known'?")


def _always(mod: object) -> bool:
    return True


def _never(mod: object) -> bool:
    return False
