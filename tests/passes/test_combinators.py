"""Combinators: how they are made, written and compared."""

from collections.abc import Callable
from typing import Any

import pytest

from apass import PassInfo, register_callable, unregister_callable
from apass.errors import PassDefinitionError
from apass.passes.conditional import If
from apass.passes.first import First
from apass.passes.minimum_point import MinimumPoint
from apass.passes.race import Race
from apass.passes.repeat import Repeat
from apass.passes.while_ import While
from tests.helpers.combinators import Module, setting


def is_large(mod: Module) -> bool:
    return len(mod) > 1


WRONG: Any = 3
SOME = [setting(1)]
SWAPPED: Any = SOME


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Repeat[Module]([]), PassDefinitionError, "Repeat takes at least one pass"),
        (lambda: Repeat[Module](WRONG), TypeError, "Repeat takes a list of passes, got 3"),
        (lambda: Repeat(WRONG, SWAPPED), TypeError, "Repeat takes a list of passes, got 3"),
        (
            lambda: Repeat(SOME, times=0),
            PassDefinitionError,
            "times must be an int of at least 1, or None for up to 100 rounds, got 0",
        ),
        (
            lambda: Repeat(SOME, times=True),
            PassDefinitionError,
            "times must be an int of at least 1, or None for up to 100 rounds, got True",
        ),
        (
            lambda: If(WRONG, SOME),
            PassDefinitionError,
            "If takes first a predicate, a function of the module, got 3",
        ),
        (lambda: If(is_large, WRONG), TypeError, "If takes a list of passes, got 3"),
        (lambda: If(is_large, SOME, WRONG), TypeError, "If(otherwise=...) takes a list of passes, got 3"),
        (lambda: Race(SOME, WRONG), PassDefinitionError, "key must be a function of the module or None, got 3"),
        (
            lambda: Repeat(SOME, budget=0),
            PassDefinitionError,
            "budget must be a number of seconds above 0 or None, got 0",
        ),
        (
            lambda: While(WRONG, SOME),
            PassDefinitionError,
            "While takes first a predicate, a function of the module, got 3",
        ),
        (lambda: MinimumPoint(SOME, WRONG), PassDefinitionError, "key must be a function of the module, got 3"),
        (
            lambda: MinimumPoint(SOME, is_large, 0),
            PassDefinitionError,
            "backtrack_depth must be an int of at least 1, got 0",
        ),
        (
            lambda: First(SOME, timeout=-1),
            PassDefinitionError,
            "timeout must be a number of seconds above 0 or None, got -1",
        ),
        (
            lambda: Race(SOME, name=""),
            PassDefinitionError,
            "the name of a pass must be a string that is not empty, got ''",
        ),
    ],
)
def test_invalid_combinator_arguments_raise(make: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == message


def test_combinator_text_omits_default_options() -> None:
    assert str(Repeat(SOME)) == "Repeat(Set)"
    assert str(Repeat(SOME, 3, True, 2, "O3", ["Set"])) == (
        "Repeat{times=3,strict=true,opt_level=2,name=O3,required=[Set]}(Set)"
    )
    assert str(First(SOME)) == "First(Set)"
    assert str(First(SOME, 2.5)) == "First{timeout=2.5}(Set)"
    register_callable(is_large)
    try:
        assert str(If(is_large, SOME, [*SOME, *SOME])) == "If{predicate=is_large,otherwise=(Set,Set)}(Set)"
        assert str(Race(SOME, is_large)) == "Race{key=is_large}(Set)"
        assert str(While(is_large, SOME, 3, 0.5)) == "While{predicate=is_large,times=3,budget=0.5}(Set)"
        assert str(MinimumPoint(SOME, is_large)) == "MinimumPoint{key=is_large}(Set)"
        assert str(MinimumPoint(SOME, is_large, 2, 9)) == "MinimumPoint{key=is_large,backtrack_depth=2,times=9}(Set)"
    finally:
        unregister_callable("is_large")
    hint = "cannot be written as text; give it a name with apass.register_callable"
    for unnamed in (If(is_large, SOME), Race(SOME, lambda mod: 1)):
        with pytest.raises(TypeError, match=rf"^<function .* at .*> \(function\) {hint}$"):
            str(unnamed)


def test_combinators_with_equal_arguments_are_equal() -> None:
    assert Repeat(SOME, times=3) == Repeat(SOME, times=3, strict=False)
    assert Repeat(SOME, times=3) != Repeat(SOME, times=4)
    assert Repeat(SOME) != Repeat([*SOME, *SOME])
    assert Repeat(SOME) != Race(SOME)
    assert If(is_large, SOME) == If(is_large, SOME, [])
    assert If(is_large, SOME) != If(is_large, SOME, SOME)
    assert If(is_large, SOME) != If(len, SOME)
    assert len({Repeat(SOME), Repeat(SOME), Race(SOME)}) == 2


def test_combinator_children_are_its_passes() -> None:
    other = [setting(2)]
    assert Repeat([*SOME, *other]).children() == (*SOME, *other)
    assert If(is_large, SOME, other).children() == tuple(SOME)
    assert If(is_large, SOME, other).otherwise == tuple(other)
    assert Race([*SOME, *other], opt_level=2, required=["Set"]).info == PassInfo(2, "Race", ["Set"])
