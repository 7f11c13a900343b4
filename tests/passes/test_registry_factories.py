"""The registry: creation of passes, and their `spec`."""

import inspect
from collections.abc import Sequence
from typing import Any

import pytest

import apass
from apass import Pass, PassContext, PassInfo, Sequential, get_pass, register_pass
from apass.errors import PassDefinitionError
from apass.passes.registry import make_pass, pass_documentation, pass_options
from apass.passes.repeat import Repeat
from tests.helpers.registering import Double, Module, Shift, clean_registry, message_of

__all__ = ["clean_registry"]


def test_get_pass_by_own_name_returns_the_object() -> None:
    register_pass(Double)
    assert get_pass("Double") is Double


def test_get_pass_by_other_name_returns_a_copy() -> None:
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


def test_combinator_needs_passes() -> None:
    assert message_of(PassDefinitionError, lambda: get_pass("Repeat", times=2)) == (
        "pass 'Repeat' contains passes; write Repeat(...)"
    )
    assert str(get_pass("Sequential", opt_level=2)) == "Sequential{opt_level=2}"


def test_default_options_are_omitted_from_combinator_spec() -> None:
    assert get_pass("Sequential", passes=[Double], opt_level=0) == Sequential([Double])
    assert get_pass("Repeat", passes=[Double], strict=False, times=None) == Repeat([Double])


def test_named_pipeline_has_no_children() -> None:
    register_pass("Shift", Shift)

    @register_pass
    def Both(by: int = 1) -> Pass[Module]:
        return Sequential([Double, Shift(by)])

    both = get_pass("Both", by=3)
    assert (str(both), list(both.children())) == ("Both{by=3}", [])
    assert both == get_pass("Both", by=3)
    assert apass.run(both, {"f": 1}) == {"f": 5}


def test_registered_pipeline_object_is_not_modified() -> None:
    both = Sequential([Double, Double], name="Both")
    register_pass(both)
    assert str(get_pass("Both")) == "Both"
    assert str(both) == "Sequential{name=Both}(Double,Double)"
    assert len(both.children()) == 2


class Both(Pass[Module]):
    """A third-party combinator without a `spec`."""

    info = PassInfo(0, "Both")

    def children(self) -> Sequence[Pass[Module]]:
        return (Double, Double)

    def transform(self, mod: Module, ctx: PassContext) -> Module:
        return mod


def test_registered_combinator_object_is_not_modified() -> None:
    both = Both()
    register_pass(both)
    assert (str(get_pass("Both")), list(get_pass("Both").children())) == ("Both", [])
    assert (str(both), both.spec, both.children()) == ("Both(Double,Double)", None, (Double, Double))


def test_factory_may_wrap_its_passes() -> None:
    @register_pass
    def Twice(passes: Sequence[Pass[Module]]) -> Pass[Module]:
        return Sequential([*passes, *passes])

    twice = get_pass("Twice", passes=[Double])
    assert (str(twice), list(twice.children())) == ("Twice(Double)", [Double])
    assert apass.run(twice, {"f": 1}) == {"f": 4}
    assert get_pass("Twice", passes=[Double]) == twice


@apass.module_pass(opt_level=0, name="Sized")
class Sized:
    """Returns its size as the module."""

    def __init__(self, size: int) -> None:
        self.size = size

    def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        """Return a module with the size."""
        return {"size": self.size}


def test_spec_contains_the_arguments_of_the_factory() -> None:
    make: Any = Sized

    @register_pass("Sized")
    def larger(size: int) -> Pass[Module]:
        made: Pass[Module] = make(size + 1)
        return made

    assert str(get_pass("Sized", size=1)) == "Sized{size=1}"
    assert apass.run(apass.parse_pipeline(str(get_pass("Sized", size=1))), {}) == {"size": 2}


def test_shared_factory_result_is_not_modified() -> None:
    make: Any = Sized
    shared: Pass[Module] = make(size=3)

    @register_pass("Sized")
    def always(size: int) -> Pass[Module]:
        return shared

    assert [str(get_pass("Sized", size=size)) for size in (1, 2)] == ["Sized{size=1}", "Sized{size=2}"]
    assert str(shared) == "Sized{size=3}"


def test_provided_pass_has_the_given_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apass.core.pass_factories._PROVIDED", {})

    def factory(**options: Any) -> apass.Pass[dict[str, Any]]:
        return apass.module_pass(lambda mod, ctx: {**mod, **options}, opt_level=0, name="Provided.Put")

    option = inspect.Parameter("x", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=1, annotation=int)
    put = apass.plugins.provide_pass("Provided.Put", options=[option], doc="Put x.")(factory)
    assert pass_documentation("Provided.Put") == "Put x."
    assert dict(pass_options("Provided.Put")) == {"x": option.replace(kind=inspect.Parameter.KEYWORD_ONLY)}
    assert str(apass.get_pass("Provided.Put", x=2)) == str(put(x=2)) == "Provided.Put{x=2}"
    with pytest.raises(apass.errors.PassDefinitionError, match="no option 'y'; it takes x"):
        apass.get_pass("Provided.Put", y=2)


def test_provided_pass_describes_itself_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apass.core.pass_factories._PROVIDED", {})
    calls: list[str] = []

    def options() -> list[inspect.Parameter]:
        calls.append("options")
        return [inspect.Parameter("x", inspect.Parameter.KEYWORD_ONLY, default=1, annotation=int)]

    def doc() -> str:
        calls.append("doc")
        return "Put x."

    def factory(**options: Any) -> apass.Pass[dict[str, Any]]:
        return apass.module_pass(lambda mod, ctx: {**mod, **options}, opt_level=0, name="Provided.Put")

    apass.plugins.provide_pass("Provided.Put", options=options, doc=doc)(factory)
    assert "Provided.Put" in apass.list_passes()
    assert calls == []
    assert str(apass.get_pass("Provided.Put", x=2)) == "Provided.Put{x=2}"
    assert list(pass_options("Provided.Put")) == ["x"]
    assert calls == ["options"]
    assert pass_documentation("Provided.Put") == "Put x."
    assert calls == ["options", "doc"]
