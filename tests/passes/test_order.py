"""The order of passes: `runs_after` and `runs_before`."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import apass
from apass import If, Pass, PassContext, Race, Repeat, Sequential, parse_pipeline
from apass.errors import PassOrderError

Module = dict[str, int]


def keep(mod: Module, ctx: PassContext) -> Module:
    return mod


def module_pass(name: str, **options: Any) -> Pass[Module]:
    return apass.module_pass(keep, opt_level=0, name=name, **options)


A, X = module_pass("A"), module_pass("X")
LATE, EARLY = module_pass("Late", runs_after=["A"]), module_pass("Early", runs_before=["A"])


@pytest.fixture
def register() -> Iterator[Callable[[str, Any], None]]:
    names: list[str] = []

    def add(name: str, factory: Any) -> None:
        apass.register_pass(name, factory)
        names.append(name)

    yield add
    for name in names:
        apass.unregister_pass(name)


Register = Callable[[str, Any], None]


def accepts(*passes: Pass[Module]) -> bool:
    """Return whether a pipeline may have the passes in this order."""
    try:
        Sequential(passes)
    except PassOrderError:
        return False
    return True


@pytest.mark.parametrize(("pass_", "relation", "opposite"), [(LATE, "after", "before"), (EARLY, "before", "after")])
def test_wrong_order_is_an_error(pass_: Pass[Module], relation: str, opposite: str) -> None:
    right = [A, pass_] if relation == "after" else [pass_, A]
    assert accepts(*right)
    assert accepts(pass_)
    with pytest.raises(PassOrderError) as caught:
        Sequential(right[::-1], name="mine")
    assert str(caught.value) == (
        f"pass {pass_.info.name!r} must run {relation} 'A', but 'mine' runs it {opposite}; move one of them"
    )


@pytest.mark.parametrize("text", ["AL", "ALL", "ALA", "ALAL", "EA", "EEA", "AEA", "EAEA", "EAL"])
def test_each_occurrence_has_a_partner(text: str) -> None:
    assert accepts(*({"A": A, "L": LATE, "E": EARLY}[letter] for letter in text))


@pytest.mark.parametrize("text", ["LA", "LAL", "LALA", "AE", "EAE", "AEAE"])
def test_one_occurrence_without_partner_is_an_error(text: str) -> None:
    assert not accepts(*({"A": A, "L": LATE, "E": EARLY}[letter] for letter in text))


def test_order_is_checked_across_nested_pipelines() -> None:
    assert not accepts(Repeat([LATE]), Sequential([A]))
    assert not accepts(If(bool, [LATE]), A)
    assert not accepts(If(bool, [X], otherwise=[LATE]), A)
    assert not accepts(Race([X, LATE]), A)
    assert accepts(If(bool, [X], otherwise=[A]), LATE)
    with pytest.raises(PassOrderError):
        Repeat([LATE, A])


def test_exclusive_passes_have_no_order() -> None:
    assert accepts(If(bool, [LATE], otherwise=[A]))
    assert accepts(Race([LATE, A, Sequential([A, LATE])]))


@pytest.mark.parametrize("pipeline", [Sequential([X], name="Clean"), Repeat([X], name="Clean")])
def test_order_knows_names_of_pipelines(pipeline: Pass[Module]) -> None:
    late = module_pass("Late", runs_after=["Clean"])
    assert accepts(pipeline, late)
    assert not accepts(late, Sequential([pipeline]))
    # What a pipeline contains is neither before nor after it.
    assert accepts(Sequential([late], name="Clean"))


def test_order_knows_registered_names(register: Register) -> None:
    register("order.A", module_pass("A"))
    register("order.Late", module_pass("Late", runs_after=["order.A", "order.Clean"]))
    register("order.Clean", lambda: Sequential([A], name="Clean"))
    for text in ("order.Late,order.A", "order.Late,order.Clean"):
        with pytest.raises(PassOrderError):
            parse_pipeline(text)


def test_order_knows_passes_of_registered_pipelines(register: Register) -> None:
    register("order.Clean", lambda: Sequential([A], name="Clean"))
    assert not accepts(LATE, apass.get_pass("order.Clean"))


def test_order_includes_required_passes(register: Register) -> None:
    user = module_pass("User", required=["order.Q"])
    # A requirement may be registered later than a pipeline is created.
    assert accepts(user, A)
    register("order.Q", module_pass("Q", runs_after=["A"], required=["order.R"]))
    register("order.R", module_pass("R", required=["order.Q"], runs_before=["X"]))
    assert accepts(A, user, A)
    assert not accepts(user, A)
    assert not accepts(A, X, user)


def test_requirement_that_fails_is_ignored(register: Register) -> None:
    register("order.Q", lambda: 1 / 0)
    assert accepts(module_pass("User", required=["order.Q"]), A)


def test_pipeline_that_requires_itself_is_created(register: Register) -> None:
    user = module_pass("User", required=["order.Q"])
    register("order.Q", lambda: Sequential([user, LATE]))
    assert not accepts(apass.get_pass("order.Q"), A)


@pytest.mark.parametrize(
    ("passes", "cycle"),
    [
        ([module_pass("X", runs_after=["Y"]), module_pass("Y", runs_after=["X"])], "X > Y > X"),
        ([A, module_pass("X", runs_after=["A"], runs_before=["A"])], "X > A > X"),
        ([module_pass("X", runs_after=["X"])], "X > X"),
    ],
)
def test_impossible_order_shows_the_cycle(passes: list[Pass[Module]], cycle: str) -> None:
    with pytest.raises(PassOrderError) as caught:
        Sequential(passes, name="mine")
    assert str(caught.value) == (
        "no order of the passes of 'mine' is possible, because runs_after and runs_before form a cycle: "
        f"{cycle}; remove one name from them"
    )
