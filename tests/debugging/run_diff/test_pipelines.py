"""`diff_pipelines`: both pipelines run alternately, on each module."""

from collections.abc import Iterator
from typing import Any

import anyio.lowlevel
import pytest

import apass
from apass.core.run import current_module_name
from apass.debugging.run_diff.module_change import ResultChange
from apass.debugging.run_diff.pipelines import diff_pipelines
from tests.helpers.recorded_runs import change

pytestmark = pytest.mark.anyio
Module = dict[str, Any]


def counting(name: str, calls: list[str]) -> apass.Pass[Any]:
    """Return a pass that records its calls, with the name of the module."""

    async def count(mod: Module, ctx: apass.PassContext) -> Module:
        await anyio.lowlevel.checkpoint()
        calls.append(f"{name}({current_module_name()})")
        return mod

    return apass.module_pass(count, opt_level=0, name=name)


async def test_pipelines_run_alternately() -> None:
    calls: list[str] = []
    diff = await diff_pipelines({"m": {"f": 1}}, counting("A", calls), counting("B", calls), rounds=2)
    assert calls == [f"{name}(m)" for name in "ABBAAB"]
    assert (diff.samples, diff.sources, current_module_name()) == ((2, 2), ("A", "B"), None)
    assert [(time.name, len(time.first), len(time.second)) for time in sorted(diff.times, key=lambda t: t.name)] == [
        ("A", 2, 0),
        ("B", 0, 2),
    ]


async def test_equal_pipelines_have_equal_results() -> None:
    passes = apass.Sequential([change("A", f=2), change("B", g=3)])
    diff = await diff_pipelines({"m": {"f": 1}, "n": {"f": 5}}, passes, passes, rounds=1)
    assert (diff.changes, len(diff.modules), [time.name for time in diff.times if not time.first]) == ((), 2, [])


async def test_first_changed_pass_is_found() -> None:
    first = apass.Sequential([change("A", f=2), change("B", g=3)])
    second = apass.Sequential([change("A", f=2), change("B", g=4)])
    diff = await diff_pipelines({"m": {"f": 1}}, first, second, rounds=1, sizes=lambda mod: {"sum": sum(mod.values())})
    (module,) = diff.changes
    assert (module.result, str(module.first_difference)) == (ResultChange.DIFFERENT, "0:sequential/1:B")
    assert [str(size) for size in module.sizes] == ["sum 5 -> 6 (+20.0%)"]


async def test_hidden_values_are_compared() -> None:
    class Weights:
        """A value whose text leaves out its contents."""

        def __init__(self, value: int) -> None:
            self.value = value

        def __repr__(self) -> str:
            return "Weights(...)"

        def __fingerprint__(self) -> object:
            return self.value

    first, second = (apass.Sequential([change("Idle"), change("A", w=Weights(value))]) for value in (1, 2))
    (module,) = (await diff_pipelines({"m": {"f": 1}}, first, second, rounds=1)).changes
    assert (module.result, str(module.first_difference)) == (ResultChange.DIFFERENT, "0:sequential/1:A")
    assert (await diff_pipelines({"m": {"f": 1}}, first, first, rounds=1)).changes == ()


async def test_random_result_is_noticed() -> None:
    values = iter(range(100))

    def draw(mod: Module, ctx: apass.PassContext) -> Module:
        return {"f": next(values)}

    random = apass.module_pass(draw, opt_level=0, name="Random")
    diff = await diff_pipelines({"m": {"f": 1}}, change("A", f=0), random, rounds=1)
    assert diff.modules[0].are_repeatable == (True, False)
    assert "unstable" in [item.kind for item in diff.regressions(9.0)]


async def test_failure_is_part_of_the_result() -> None:
    def fail(mod: Module, ctx: apass.PassContext) -> Module:
        raise ValueError("no")

    bad = apass.Sequential([apass.module_pass(fail, opt_level=0, name="Fail")])
    diff = await diff_pipelines({"m": {"f": 1}, "n": {"f": 1}}, apass.Sequential([change("A")]), bad, rounds=1)
    assert [item.failures[1] for item in diff.modules] == ["ValueError: no (in 0:sequential/0:Fail)"] * 2
    assert {item.result for item in diff.modules} == {ResultChange.FAILED}


async def test_modules_are_read_one_by_one() -> None:
    events: list[str] = []

    def modules() -> Iterator[tuple[str, Module]]:
        for name in "mn":
            events.append(f"read {name}")
            yield name, {"f": 1}

    await diff_pipelines(modules(), counting("A", events), counting("A", events), rounds=1, report=events.append)
    assert events == ["read m", "m", *["A(m)"] * 4, "read n", "n", *["A(n)"] * 4]


async def test_context_of_the_caller_applies() -> None:
    calls: list[str] = []
    passes = apass.Sequential([counting("A", calls), counting("B", calls)])
    async with apass.PassContext(disabled_pass=["A"]):
        await diff_pipelines({"m": {"f": 1}}, passes, passes, rounds=1)
    assert set(calls) == {"B(m)"}


@pytest.mark.parametrize("rounds", [0, -1, True, 1.5])
async def test_rounds_must_be_a_count(rounds: Any) -> None:
    with pytest.raises(ValueError, match="rounds must be an int of at least 1"):
        await diff_pipelines({}, change("A"), change("A"), rounds=rounds)


async def test_other_objects_are_no_pipelines() -> None:
    number: Any = 3
    with pytest.raises(TypeError, match="diff_pipelines"):
        await diff_pipelines({}, number, change("A"))


async def test_exit_of_a_pass_is_its_failure() -> None:
    def leave(mod: Module, ctx: apass.PassContext) -> Module:
        raise SystemExit(3)

    diff = await diff_pipelines({"m": {"f": 1}}, change("A", f=2), apass.module_pass(leave, opt_level=0), rounds=1)
    assert str(diff) == "1 module compared: 1 failed"
