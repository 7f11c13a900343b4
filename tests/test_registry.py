"""The registry: names for factories, classes and passes, typed options, suggestions."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import apass
from apass import (
    ModulePass,
    Pass,
    PassContext,
    PassDefinitionError,
    PassInfo,
    PassRegistrationError,
    Sequential,
    UnknownPassError,
    get_pass,
    list_passes,
    register_pass,
    unregister_pass,
)
from apass.combinators import Repeat
from apass.factories import load_providers
from apass.registry import make_pass, pass_options

ROOT = Path(__file__).parent.parent

Module = dict[str, int]

NOT_CALLABLE: Any = 3


class Mode(Enum):
    FAST = 1
    SMALL = 2


class Shift(ModulePass[Module]):
    """A pass with options, which its attributes show."""

    info = PassInfo(opt_level=1, name="Shift")

    def __init__(self, by: int, mode: Mode = Mode.FAST, names: Sequence[str] = (), factor: float = 1.0) -> None:
        self.by = by
        self.mode = mode
        self.names = names
        self.factor = factor

    def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        return {name: func + self.by for name, func in mod.items()}


@apass.module_pass(opt_level=0)
async def Double(mod: Module, ctx: PassContext) -> Module:
    return {name: 2 * func for name, func in mod.items()}


@pytest.fixture(autouse=True)
def clean_registry() -> Iterator[None]:
    """Take out again what a test registers."""
    load_providers()
    before = set(list_passes())
    yield
    for name in set(list_passes()) - before:
        unregister_pass(name)


def test_a_pass_of_apass_itself_is_there_again_when_the_one_in_its_place_is_gone() -> None:
    own = get_pass("FoldConstant")
    register_pass("FoldConstant", Double)
    assert get_pass("FoldConstant").info == Double.info
    unregister_pass("FoldConstant")
    assert get_pass("FoldConstant") == own
    assert message_of(UnknownPassError, lambda: unregister_pass("FoldConstant")) == (
        "the pass 'FoldConstant' is apass's own, and stays"
    )


def message_of(error: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


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


# What is made.


def test_a_pass_by_its_own_name_is_that_pass() -> None:
    register_pass(Double)
    assert get_pass("Double") is Double


def test_a_pass_by_another_name_is_another_object() -> None:
    shift = Shift(1)
    register_pass("Add", shift)
    register_pass("Plus", shift)
    add, plus = get_pass("Add"), get_pass("Plus")
    assert (str(add), str(plus), str(shift)) == ("Add", "Plus", "Shift")
    assert add == get_pass("Add")
    assert add != plus
    assert apass.run(add, {"f": 1}) == apass.run(plus, {"f": 1}) == {"f": 2}


def test_passes_are_equal_by_name_options_and_passes() -> None:
    register_pass("Shift", Shift)
    assert get_pass("Shift", by=1) == get_pass("Shift", by=1)
    assert get_pass("Shift", by=1) != get_pass("Shift", by=2)
    assert get_pass("Repeat", passes=[Double], times=2) == Repeat([Double], times=2)
    assert make_pass("Repeat", {"times": 2}, [Double]) != Repeat([Double], times=3)
    assert hash(get_pass("Shift", by=1)) == hash(get_pass("Shift", by=1))


def test_a_pass_made_of_passes_needs_some() -> None:
    assert message_of(PassDefinitionError, lambda: get_pass("Repeat", times=2)) == (
        "pass 'Repeat' is made of passes; write Repeat(...)"
    )
    assert str(get_pass("Sequential", opt_level=2)) == "Sequential{opt_level=2}"


def test_options_as_usual_are_left_out_of_a_combinator() -> None:
    assert get_pass("Sequential", passes=[Double], opt_level=0) == Sequential([Double])
    assert get_pass("Repeat", passes=[Double], strict=False, times=None) == Repeat([Double])


def test_a_pipeline_under_a_name_of_its_own_is_one_pass_without_children() -> None:
    register_pass("Shift", Shift)

    @register_pass
    def Both(by: int = 1) -> Pass[Module]:
        return Sequential([Double, Shift(by)])

    both = get_pass("Both", by=3)
    assert (str(both), list(both.children())) == ("Both{by=3}", [])
    assert both == get_pass("Both", by=3)
    assert apass.run(both, {"f": 1}) == {"f": 5}


def test_a_pipeline_registered_as_an_object_stays_as_it_was() -> None:
    both = Sequential([Double, Double], name="Both")
    register_pass(both)
    assert str(get_pass("Both")) == "Both"
    assert str(both) == "Sequential{name=Both}(Double,Double)"
    assert len(both.children()) == 2


class Both(Pass[Module]):
    """A combinator from outside, which does not say how it was made."""

    info = PassInfo(0, "Both")

    def children(self) -> Sequence[Pass[Module]]:
        return (Double, Double)

    def transform(self, mod: Module, ctx: PassContext) -> Module:
        return mod


def test_a_combinator_registered_as_an_object_stays_as_it_was() -> None:
    both = Both()
    register_pass(both)
    assert (str(get_pass("Both")), list(get_pass("Both").children())) == ("Both", [])
    assert (str(both), both.spec, both.children()) == ("Both(Double,Double)", None, (Double, Double))


def test_a_factory_may_make_something_else_of_its_passes() -> None:
    @register_pass
    def Twice(passes: Sequence[Pass[Module]]) -> Pass[Module]:
        return Sequential([*passes, *passes])

    twice = get_pass("Twice", passes=[Double])
    assert (str(twice), list(twice.children())) == ("Twice(Double)", [Double])
    assert apass.run(twice, {"f": 1}) == {"f": 4}
    assert get_pass("Twice", passes=[Double]) == twice


@apass.module_pass(opt_level=0, name="Sized")
class Sized:
    """Says its size."""

    def __init__(self, size: int) -> None:
        self.size = size

    def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        """Say it."""
        return {"size": self.size}


def test_a_pass_is_known_by_what_its_factory_was_given_and_not_by_what_that_made_of_it() -> None:
    make: Any = Sized

    @register_pass("Sized")
    def larger(size: int) -> Pass[Module]:
        made: Pass[Module] = make(size + 1)
        return made

    assert str(get_pass("Sized", size=1)) == "Sized{size=1}"
    assert apass.run(apass.parse_pipeline(str(get_pass("Sized", size=1))), {}) == {"size": 2}


def test_a_pass_that_a_factory_hands_out_again_and_again_stays_as_it_was() -> None:
    make: Any = Sized
    shared: Pass[Module] = make(size=3)

    @register_pass("Sized")
    def always(size: int) -> Pass[Module]:
        return shared

    assert [str(get_pass("Sized", size=size)) for size in (1, 2)] == ["Sized{size=1}", "Sized{size=2}"]
    assert str(shared) == "Sized{size=3}"
