"""The registry: names of factories and passes, typed options, suggestions."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

import apass
from apass import Pass, PassContext, PassInfo, get_pass, list_passes, register_pass, unregister_pass
from apass.errors import PassDefinitionError, PassRegistrationError, UnknownPassError
from apass.passes.registry import pass_options
from apass.passes.repeat import Repeat
from tests.helpers.registering import Double, Mode, Module, Shift, clean_registry, message_of
from tests.helpers.repository import ROOT

NOT_CALLABLE: Any = 3

__all__ = ["clean_registry"]


def test_unregistering_an_override_restores_the_provided_pass() -> None:
    own = get_pass("FoldConstant")
    register_pass("FoldConstant", Double)
    assert get_pass("FoldConstant").all_names == ("Double", "FoldConstant")
    unregister_pass("FoldConstant")
    assert get_pass("FoldConstant") == own
    assert message_of(UnknownPassError, lambda: unregister_pass("FoldConstant")) == (
        "the pass 'FoldConstant' is provided by a plug-in and cannot be unregistered"
    )


# Names.


def test_registered_pass_is_found_until_unregistered() -> None:
    before = list_passes()
    register_pass("Shift", Shift)
    assert list_passes() == sorted([*before, "Shift"])
    unregister_pass("Shift")
    assert list_passes() == before
    with pytest.raises(UnknownPassError):
        get_pass("Shift")


@pytest.mark.process
@pytest.mark.slow
def test_provided_passes_are_listed_without_imports() -> None:
    pytest.importorskip("onnx_ir")
    code = "import apass; print({'FoldConstant', 'onnx.Checker'} <= set(apass.list_passes()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_register_pass_returns_its_argument() -> None:
    def Made() -> Pass[Module]:
        return Double

    assert register_pass("A", Made) is Made
    assert register_pass("B")(Shift) is Shift
    assert register_pass(Double) is Double
    assert register_pass(Made) is Made
    assert register_pass(Shift) is Shift
    assert set(list_passes()) >= {"A", "B", "Double", "Made", "Shift"}


def test_class_is_registered_under_its_info_name() -> None:
    @register_pass
    @apass.module_pass(opt_level=1, name="Named")
    class Work:
        def transform_module(self, mod: Module, ctx: PassContext) -> Module:
            return mod

    assert get_pass("Named").info == PassInfo(1, "Named")
    assert "Work" not in list_passes()


def test_registered_name_cannot_be_reused() -> None:
    register_pass(Double)
    assert message_of(PassRegistrationError, lambda: register_pass("Double", Shift)) == (
        "a pass named 'Double' is already registered; call unregister_pass('Double') first, or choose another name"
    )
    assert get_pass("Double") is Double


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: register_pass("", Shift), "the name of a pass must be a non-empty str, got ''"),
        (
            lambda: register_pass("two words", Shift),
            (
                "invalid name of a pass 'two words'; use letters, digits and any of . : / + - _, "
                "so that it can be written in a pipeline"
            ),
        ),
        (lambda: register_pass("X", NOT_CALLABLE), "the factory of pass 'X' must be callable, got 3"),
        (lambda: register_pass(NOT_CALLABLE), '3 has no usable name; write register_pass("Name", ...)'),
    ],
)
def test_invalid_registration_raises(call: Callable[[], object], message: str) -> None:
    before = list_passes()
    assert (message_of(PassRegistrationError, call), list_passes()) == (message, before)


def test_lambda_needs_an_explicit_name() -> None:
    with pytest.raises(PassRegistrationError, match=r"^<function .*<lambda> at .*> has no usable name; "):
        register_pass(lambda: Double)


def test_unknown_name_error_suggests_the_nearest() -> None:
    register_pass("Shift", Shift)
    assert message_of(UnknownPassError, lambda: get_pass("shfit")) == (
        "no pass is registered under the name 'shfit'; did you mean 'Shift'?"
    )
    assert message_of(UnknownPassError, lambda: unregister_pass("Shfit")) == (
        "no pass is registered under the name 'Shfit'; did you mean 'Shift'?"
    )


def test_unknown_name_error_lists_five_names() -> None:
    start, _, rest = message_of(UnknownPassError, lambda: get_pass("xyz")).partition("; registered are: ")
    names, _, end = rest.partition(" and ")
    assert start == "no pass is registered under the name 'xyz'"
    assert (len(names.split(", ")), set(names.split(", ")) <= set(list_passes())) == (5, True)
    assert end == f"{len(list_passes()) - 5} more; `apass passes` or list_passes() lists all"


# Options.


def test_options_are_the_factory_parameters() -> None:
    register_pass("Shift", Shift)
    assert {key: (one.annotation, one.default) for key, one in pass_options("Shift").items()} == {
        "by": (int, pass_options("Shift")["by"].empty),
        "mode": (Mode, Mode.FAST),
        "names": (Sequence[str], ()),
        "factor": (float, 1.0),
    }
    register_pass("Again", Repeat)
    assert list(pass_options("Again")) == ["times", "strict", "opt_level", "name", "required", "budget"]
    register_pass(Double)
    assert pass_options("Double") == {}


def test_options_are_converted_to_declared_types() -> None:
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
        ({"by": "3"}, "option 'by' of pass 'Shift': expected int, got '3' (str)"),
        ({"by": 3, "mode": "slow"}, "option 'mode' of pass 'Shift': expected one of FAST, SMALL, got 'slow'"),
        ({"by": 3, "fctor": 2.0}, "pass 'Shift' has no option 'fctor'; did you mean 'factor'?"),
        ({"by": 3, "zzz": 2.0}, "pass 'Shift' has no option 'zzz'; it takes by, factor, mode, names"),
        ({"by": 3, "passes": []}, "pass 'Shift' does not contain passes; write it without parentheses"),
    ],
)
def test_invalid_options_raise(options: dict[str, Any], message: str) -> None:
    register_pass("Shift", Shift)
    assert message_of(PassDefinitionError, lambda: get_pass("Shift", **options)) == message


def test_registered_pass_object_takes_no_options() -> None:
    register_pass(Double)
    assert message_of(PassDefinitionError, lambda: get_pass("Double", by=3)) == (
        "pass 'Double' has no option 'by'; it takes none"
    )


def test_var_keyword_factory_receives_all_options() -> None:
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


def test_factory_can_be_any_callable() -> None:
    register_pass("Maker", Maker())
    assert str(get_pass("Maker", by=3)) == "Maker{by=3}"
    register_pass("Part", partial(Shift, mode=Mode.SMALL))
    assert str(get_pass("Part", by=3)) == "Part{by=3}"


def test_unresolvable_annotations_leave_options_untyped() -> None:
    def make(by: Any) -> Pass[Module]:
        return Shift(by)

    make.__annotations__.update(by="Missing", **{"return": "AlsoMissing"})
    register_pass("Make", make)
    assert get_pass("Make", by=3).spec == ("Make", {"by": 3})


def test_string_annotations_are_evaluated() -> None:
    def make(by: "int") -> "Pass[Module]":
        return Shift(by)

    register_pass("Make", make)
    assert message_of(PassDefinitionError, lambda: get_pass("Make", by="3")) == (
        "option 'by' of pass 'Make': expected int, got '3' (str)"
    )


def test_factory_must_return_a_pass() -> None:
    register_pass("Nothing", lambda: None)
    assert message_of(PassRegistrationError, lambda: get_pass("Nothing")) == (
        "the factory of pass 'Nothing' returned None, which is not a pass"
    )


@pytest.mark.process
@pytest.mark.slow
def test_own_pass_is_loaded_by_its_name() -> None:
    code = (
        "import sys\n"
        "from apass import get_pass, list_passes, register_pass, unregister_pass\n"
        "from apass.errors import PassRegistrationError\n"
        "try:\n    register_pass('Race', print)\n"
        "except PassRegistrationError as error:\n    print(str(error).partition(';')[0])\n"
        "print('Race' in list_passes(), 'apass.passes.race' in sys.modules)\n"
        "print(get_pass('PrintIR'), 'apass.passes.print_ir' in sys.modules)\n"
        "unregister_pass('Race')\n"
        "print('Race' in list_passes(), register_pass('Race', print) is print)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "a pass named 'Race' is already registered",
        "True False",
        "PrintIR True",
        "False True",
    ]
