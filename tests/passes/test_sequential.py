"""`Sequential`: selection of passes, requirements, and cycles of requirements."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import apass
from apass import PassContext, Sequential
from apass.errors import CyclicRequirementError, UnknownPassError
from apass.testing import RecordingInstrument
from tests.helpers.recording import logging_pass, module_pass_of

pytestmark = pytest.mark.anyio

Module = dict[str, Any]
Register = Callable[..., apass.Pass[Module]]


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def register(log: list[str]) -> Iterator[Register]:
    """Register a pass for the time of a test: one that logs, or one that is given."""
    names: list[str] = []

    def add(name: str, required: Sequence[str] = (), opt_level: int = 0, **given: Any) -> apass.Pass[Module]:
        pass_: apass.Pass[Module] = given.get("pass_") or logging_pass(log, name, opt_level, required, **given)
        apass.register_pass(name, pass_)
        names.append(name)
        return pass_

    yield add
    for name in names:
        apass.unregister_pass(name)


# Which passes run.


@pytest.mark.parametrize("level", range(5))
async def test_level_decides_whether_a_pass_runs(level: int, log: list[str]) -> None:
    pipeline = Sequential([logging_pass(log, f"P{n}", opt_level=n) for n in (3, 0, 4, 1, 2)])
    async with PassContext(opt_level=level):
        await pipeline({})
    assert log == [f"run P{n}" for n in (3, 0, 4, 1, 2) if n <= level]


@pytest.mark.parametrize(
    ("required", "disabled", "runs"),
    [([], [], False), (["P"], [], True), ([], ["P"], False), (["P"], ["P"], False)],
)
async def test_disabled_pass_takes_precedence_over_required_pass(
    required: list[str], disabled: list[str], runs: bool, log: list[str]
) -> None:
    async with PassContext(opt_level=1, required_pass=required, disabled_pass=disabled):
        await Sequential([logging_pass(log, "P", opt_level=2)])({})
    assert log == (["run P"] if runs else [])


async def test_nested_sequential_is_a_pass(log: list[str]) -> None:
    inner = Sequential([logging_pass(log, "P")], opt_level=3, name="Inner")
    outer = Sequential([inner, logging_pass(log, "Q")])
    await outer({})
    async with PassContext(opt_level=3):
        await outer({})
    async with PassContext(opt_level=3, disabled_pass=["Inner"]):
        await outer({})
    assert log == ["run Q", "run P", "run Q", "run Q"]


async def test_each_pass_receives_the_previous_result() -> None:
    passes = [module_pass_of(lambda mod, ctx: {**mod, f"f{len(mod)}": list(mod)}) for _ in range(3)]
    assert await Sequential(passes)({}) == {"f0": [], "f1": ["f0"], "f2": ["f0", "f1"]}


async def test_empty_sequential_returns_its_input() -> None:
    mod: Module = {"f": 1}
    assert await Sequential[Module]()(mod) is mod


def test_sequential_has_default_level_and_name() -> None:
    assert (Sequential().info, Sequential([], 2, "S", ["R"]).info) == (
        apass.PassInfo(0, "sequential"),
        apass.PassInfo(2, "S", ["R"]),
    )


# What is required.


async def test_requirements_run_first_in_order(log: list[str], register: Register) -> None:
    register("R1")
    register("R2")
    await Sequential([logging_pass(log, "P", required=["R2", "R1"]), logging_pass(log, "Q")])({})
    assert log == ["run R2", "run R1", "run P", "run Q"]


async def test_requirements_ignore_level_and_disabled_pass(log: list[str], register: Register) -> None:
    register("R", opt_level=9)
    async with PassContext(opt_level=0, disabled_pass=["R"]):
        await Sequential([logging_pass(log, "P", required=["R"])])({})
    assert log == ["run R", "run P"]


async def test_skipped_pass_does_not_run_its_requirements(log: list[str], register: Register) -> None:
    register("R")
    async with PassContext(opt_level=1, disabled_pass=["P"]):
        await Sequential([logging_pass(log, "P", required=["R"]), logging_pass(log, "Q", 2, ["R"])])({})
    assert log == []


async def test_requirements_call_hooks(log: list[str], register: Register) -> None:
    register("R")
    async with PassContext(instruments=[RecordingInstrument("A", log, skips=["R"])]):
        await Sequential([logging_pass(log, "P", required=["R"])], name="S")({})
    assert log[1:-1] == [
        *("A.should_run S", "A.run_before_pass S"),
        "A.should_run R",
        *("A.should_run P", "A.run_before_pass P", "run P", "A.run_after_pass P"),
        "A.run_after_pass S",
    ]


async def test_requirements_of_requirements_run_depth_first(log: list[str], register: Register) -> None:
    register("R1", required=["R2", "R3"])
    register("R2", required=["R4"])
    register("R3", required=["R4"])
    register("R4")
    await Sequential([logging_pass(log, "P", required=["R1", "R4"])])({})
    assert log == ["run R4", "run R2", "run R4", "run R3", "run R1", "run R4", "run P"]


async def test_requirement_can_run_again(log: list[str], register: Register) -> None:
    register("R1")
    register("R2", required=["R1"])
    await Sequential([logging_pass(log, "P", required=["R1", "R2"])])({})
    assert log == ["run R1", "run R1", "run R2", "run P"]


async def test_only_inner_sequentials_run_their_requirements(log: list[str], register: Register) -> None:
    register("R")
    inner = Sequential([logging_pass(log, "P")], name="Inner", required=["R"])
    await inner({})
    await Sequential([inner], required=["NoSuchPass"])({})
    assert log == ["run P", "run R", "run P"]


async def test_required_sequential_runs_its_passes(log: list[str], register: Register) -> None:
    register("R2")
    register("R", pass_=Sequential([logging_pass(log, "P", required=["R2"]), logging_pass(log, "Q", 9)], name="R"))
    await Sequential([logging_pass(log, "T", required=["R"])])({})
    assert log == ["run R2", "run P", "run T"]


async def test_shared_requirement_runs_before_each_pass(log: list[str], register: Register) -> None:
    register("R")
    await Sequential([logging_pass(log, "P", required=["R"]), logging_pass(log, "Q", required=["R"])])({})
    assert log == ["run R", "run P", "run R", "run Q"]


async def test_unknown_requirement_error_suggests_a_name(log: list[str], register: Register) -> None:
    register("InferType")
    with pytest.raises(UnknownPassError) as caught:
        await Sequential([logging_pass(log, "P", required=["InferTyp"])])({})
    assert "no pass is registered under the name 'InferTyp'; did you mean 'InferType'?" in str(caught.value)
    assert caught.value.__notes__ == ["required by pass 'P'", "in pass 'sequential'"]


# Cycles.


@pytest.mark.parametrize("length", [1, 2, 5])
async def test_requirement_cycle_is_shown(length: int, log: list[str], register: Register) -> None:
    for n in range(length):
        register(f"R{n}", required=[f"R{(n + 1) % length}"])
    with pytest.raises(CyclicRequirementError) as caught:
        await Sequential([logging_pass(log, "P", required=["R0"])])({})
    cycle = " > ".join([*(f"R{n}" for n in range(length)), "R0"])
    assert f"the required passes form a cycle: {cycle};" in str(caught.value)
    assert log == []


async def test_requirement_cycle_of_one_pass_is_shown(log: list[str], register: Register) -> None:
    register("R", required=["P"])
    with pytest.raises(CyclicRequirementError, match="cycle: P > R > P;"):
        await Sequential([register("P", required=["R"])])({})


async def test_requirement_cycle_through_a_sequential_is_shown(log: list[str], register: Register) -> None:
    register("S", pass_=Sequential([logging_pass(log, "P", required=["S"])], name="S"))
    with pytest.raises(CyclicRequirementError, match="cycle: S > P > S;"):
        await Sequential([logging_pass(log, "T", required=["S"])])({})


async def test_long_chain_of_requirements_is_allowed(log: list[str], register: Register) -> None:
    for n in range(100):
        register(f"R{n}", required=[f"R{n + 1}"] if n < 99 else [])
    await Sequential([logging_pass(log, "P", required=["R0"])])({})
    assert log == [*(f"run R{n}" for n in range(99, -1, -1)), "run P"]


async def test_cycle_in_one_module_does_not_affect_others(log: list[str], register: Register) -> None:
    register("R", required=["R"])
    bad = Sequential([logging_pass(log, "P", required=["R"])])
    for _ in range(2):
        with pytest.raises(CyclicRequirementError, match="cycle: R > R;"):
            await bad({})


# Construction.


FROM_TEXT = "; create passes from text with apass.get_pass or apass.parse_pipeline"


@pytest.mark.parametrize(
    ("passes", "says"),
    [
        ("P", f"Sequential takes a list of passes, got 'P'{FROM_TEXT}"),
        (["P"], f"Sequential takes passes, got 'P'{FROM_TEXT}"),
        (
            Sequential[Any](),
            "Sequential takes a list of passes, got <Sequential sequential opt_level=0>; put it into a list",
        ),
        ([()], "Sequential takes passes, got (); for several passes, write apass.Sequential([...])"),
        ([apass.ModulePass], "Sequential takes passes, but ModulePass is a class of passes; write ModulePass()"),
        (
            [len],
            (
                "Sequential takes passes, got <built-in function len>; "
                "create a pass from it with module_pass or function_pass"
            ),
        ),
        ([1], "Sequential takes passes, got 1"),
    ],
)
def test_sequential_rejects_objects_that_are_not_passes(passes: Any, says: str) -> None:
    with pytest.raises(TypeError) as caught:
        Sequential(passes)
    assert str(caught.value) == says


def test_text_omits_redundant_sequentials(log: list[str]) -> None:
    first, second = logging_pass(log, "P"), logging_pass(log, "Q")
    plain = Sequential([first, second])
    named = Sequential([plain, first], opt_level=1, name="S", required=["R"])
    assert (str(plain), str(named), str(Sequential([plain]))) == (
        "P,Q",
        "Sequential{name=S,opt_level=1,required=[R]}(Sequential(P,Q),P)",
        "Sequential(Sequential(P,Q))",
    )
