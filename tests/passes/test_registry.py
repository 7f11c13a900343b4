"""The registry: names for factories, classes and passes, typed options, suggestions."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import apass
from apass import (
    Pass,
    PassContext,
    PassDefinitionError,
    PassInfo,
    PassRegistrationError,
    UnknownPassError,
    get_pass,
    list_passes,
    register_pass,
    unregister_pass,
)
from apass.combinators import Repeat
from apass.passes.registry import pass_options
from tests.helpers.registering import Double, Mode, Module, Shift, clean_registry, message_of

ROOT = Path(__file__).parent.parent.parent

NOT_CALLABLE: Any = 3

__all__ = ["clean_registry"]


def test_a_pass_of_apass_itself_is_there_again_when_the_one_in_its_place_is_gone() -> None:
    own = get_pass("FoldConstant")
    register_pass("FoldConstant", Double)
    assert get_pass("FoldConstant").info == Double.info
    unregister_pass("FoldConstant")
    assert get_pass("FoldConstant") == own
    assert message_of(UnknownPassError, lambda: unregister_pass("FoldConstant")) == (
        "the pass 'FoldConstant' is apass's own, and stays"
    )


# Names.


def test_a_pass_is_known_by_name_until_it_is_unregistered() -> None:
    before = list_passes()
    register_pass("Shift", Shift)
    assert list_passes() == sorted([*before, "Shift"])
    unregister_pass("Shift")
    assert list_passes() == before
    with pytest.raises(UnknownPassError):
        get_pass("Shift")


def test_passes_of_apass_are_listed_though_nothing_has_imported_them() -> None:
    code = "import apass; print({'FoldConstant', 'onnx.Checker'} <= set(apass.list_passes()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_each_form_registers_and_returns_what_it_was_given() -> None:
    def Made() -> Pass[Module]:
        return Double

    assert register_pass("A", Made) is Made
    assert register_pass("B")(Shift) is Shift
    assert register_pass(Double) is Double
    assert register_pass(Made) is Made
    assert register_pass(Shift) is Shift
    assert set(list_passes()) >= {"A", "B", "Double", "Made", "Shift"}


def test_a_class_goes_by_the_name_of_its_passes() -> None:
    @register_pass
    @apass.module_pass(opt_level=1, name="Named")
    class Work:
        def transform_module(self, mod: Module, ctx: PassContext) -> Module:
            return mod

    assert get_pass("Named").info == PassInfo(1, "Named")
    assert "Work" not in list_passes()


def test_a_name_is_given_only_once() -> None:
    register_pass(Double)
    assert message_of(PassRegistrationError, lambda: register_pass("Double", Shift)) == (
        "a pass named 'Double' is already registered; call unregister_pass('Double') first, or choose another name"
    )
    assert get_pass("Double") is Double


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: register_pass("", Shift), "a pass is registered under a name, not ''"),
        (
            lambda: register_pass("two words", Shift),
            (
                "a pass cannot be named 'two words': a pipeline's text could not name it; "
                "use letters, digits and any of . : / + - _"
            ),
        ),
        (lambda: register_pass("X", NOT_CALLABLE), "the factory of pass 'X' must be callable, not 3"),
        (lambda: register_pass(NOT_CALLABLE), '3 has no name to be registered under; write register_pass("Name", ...)'),
    ],
)
def test_what_cannot_be_registered_is_refused(call: Callable[[], object], message: str) -> None:
    before = list_passes()
    assert (message_of(PassRegistrationError, call), list_passes()) == (message, before)


def test_a_function_without_a_name_needs_one() -> None:
    with pytest.raises(
        PassRegistrationError, match=r"^<function .*<lambda> at .*> has no name to be registered under; "
    ):
        register_pass(lambda: Double)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    register_pass("Shift", Shift)
    assert message_of(UnknownPassError, lambda: get_pass("shfit")) == (
        "no pass is registered under the name 'shfit'; did you mean 'Shift'?"
    )
    assert message_of(UnknownPassError, lambda: unregister_pass("Shfit")) == (
        "no pass is registered under the name 'Shfit'; did you mean 'Shift'?"
    )


def test_a_name_near_to_none_is_answered_with_all() -> None:
    every = ", ".join(list_passes())
    assert message_of(UnknownPassError, lambda: get_pass("xyz")) == (
        f"no pass is registered under the name 'xyz'; registered are: {every}"
    )


# Options.


def test_options_are_what_the_factory_takes() -> None:
    register_pass("Shift", Shift)
    assert {key: (one.annotation, one.default) for key, one in pass_options("Shift").items()} == {
        "by": (int, pass_options("Shift")["by"].empty),
        "mode": (Mode, Mode.FAST),
        "names": (Sequence[str], ()),
        "factor": (float, 1.0),
    }
    register_pass("Again", Repeat)
    assert list(pass_options("Again")) == ["times", "strict", "opt_level", "name", "required"]
    register_pass(Double)
    assert pass_options("Double") == {}


def test_options_come_as_the_declared_types() -> None:
    register_pass("Shift", Shift)
    made = get_pass("Shift", by=3, mode="SMALL", names=("f",), factor=2)
    assert isinstance(made, Shift)
    assert (made.by, made.mode, made.names, made.factor) == (3, Mode.SMALL, ["f"], 2.0)
    assert made.spec == ("Shift", {"by": 3, "mode": Mode.SMALL, "names": ["f"], "factor": 2.0})
    assert str(made) == "Shift{by=3,mode=SMALL,names=[f],factor=2.0}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "pass 'Shift' needs the option 'by'"),
        ({"by": "3"}, "option 'by' of pass 'Shift': wanted int, got '3' (str)"),
        ({"by": 3, "mode": "slow"}, "option 'mode' of pass 'Shift': wanted one of FAST, SMALL, got 'slow'"),
        ({"by": 3, "fctor": 2.0}, "pass 'Shift' has no option 'fctor'; did you mean 'factor'?"),
        ({"by": 3, "zzz": 2.0}, "pass 'Shift' has no option 'zzz'; it takes by, factor, mode, names"),
        ({"by": 3, "passes": []}, "pass 'Shift' is not made of passes, and takes none"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    register_pass("Shift", Shift)
    assert message_of(PassDefinitionError, lambda: get_pass("Shift", **options)) == message


def test_a_pass_without_options_takes_none() -> None:
    register_pass(Double)
    assert message_of(PassDefinitionError, lambda: get_pass("Double", by=3)) == (
        "pass 'Double' has no option 'by'; it takes none"
    )


def test_a_factory_that_takes_anything_is_given_it() -> None:
    given: list[dict[str, object]] = []

    def anything(*args: object, **options: object) -> Pass[Module]:
        given.append(options)
        return Double

    register_pass("Anything", anything)
    made = get_pass("Anything", depth="3", name="x")
    assert given == [{"depth": "3", "name": "x"}]
    assert made.spec == ("Anything", {"depth": "3", "name": "x"})


class Maker:
    """A factory that cannot be hashed."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __call__(self, by: int = 1) -> Pass[Module]:
        return Shift(by)


def test_a_factory_is_any_callable() -> None:
    register_pass("Maker", Maker())
    assert str(get_pass("Maker", by=3)) == "Maker{by=3}"
    register_pass("Part", partial(Shift, mode=Mode.SMALL))
    assert str(get_pass("Part", by=3)) == "Part{by=3}"


def test_annotations_that_name_nothing_leave_options_without_a_type() -> None:
    def make(by: Any) -> Pass[Module]:
        return Shift(by)

    make.__annotations__.update(by="Missing", **{"return": "AlsoMissing"})
    register_pass("Make", make)
    assert get_pass("Make", by=3).spec == ("Make", {"by": 3})


def test_annotations_in_quotes_count() -> None:
    def make(by: "int") -> "Pass[Module]":
        return Shift(by)

    register_pass("Make", make)
    assert message_of(PassDefinitionError, lambda: get_pass("Make", by="3")) == (
        "option 'by' of pass 'Make': wanted int, got '3' (str)"
    )


def test_a_factory_must_return_a_pass() -> None:
    register_pass("Nothing", lambda: None)
    assert message_of(PassRegistrationError, lambda: get_pass("Nothing")) == (
        "the factory of pass 'Nothing' returned None, which is no pass"
    )
