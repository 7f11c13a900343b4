"""`RunDiff`: results, first differences and regressions of runs."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

import apass
from apass.debugging.run_diff.diff import RunDiff
from apass.debugging.run_diff.module_change import ModuleChange, ResultChange
from apass.debugging.run_diff.recorded_run import RecordedModule, RecordedRun
from tests.helpers.recorded_runs import change, output, reported, runs, timed

BASE = (0.100, 0.101, 0.102, 0.103, 0.104)
SLOW = tuple(1.2 * seconds for seconds in BASE)


def compared(first: list[apass.Pass[Any]], second: list[apass.Pass[Any]], **modules: Any) -> RunDiff:
    """Return the comparison of two reports."""
    mods = modules or {"m": {"f": 1}}
    return RunDiff.of(*(RecordedRun.of(reported(passes, mods).record(), "run") for passes in (first, second)))


@given(runs())
def test_run_equals_itself(run: RecordedRun) -> None:
    diff = RunDiff.of(run, run)
    unstable = any(not module.is_repeatable for module in run.modules.values())
    assert diff.is_empty or unstable
    assert (diff.regressions(0.0, allow_different=False), diff.mirrored) == ((), diff)


@given(runs(), runs())
def test_swapped_runs_mirror_the_diff(first: RecordedRun, second: RecordedRun) -> None:
    diff = RunDiff.of(first, second)
    assert RunDiff.of(second, first) == diff.mirrored
    assert diff.mirrored.mirrored == diff
    assert diff.mirrored.is_empty == diff.is_empty


def test_equal_reports_have_no_difference() -> None:
    passes = [change("A", f=2), change("B"), change("C", g=3)]
    diff = compared(passes, passes)
    assert (diff.changes, str(diff)) == ((), "1 module compared: all results are equal")


def test_first_changed_pass_is_found() -> None:
    rest = change("C", h=4)
    diff = compared(
        [change("A", f=2), change("B", g=3), rest], [change("A", f=2), change("B", g=5), rest], m={"f": 1}, n={"f": 1}
    )
    for module in diff.modules:
        assert module.result is ResultChange.DIFFERENT
        assert str(module.first_difference) == "0:sequential/1:B"
        assert module.first_difference is not None
        lines = module.first_difference.diff.splitlines()
        assert [line for line in lines if line.startswith(("-", "+"))] == ["-g: 3", "+g: 5"], lines


def test_difference_that_disappears_is_named() -> None:
    diff = compared([change("A", f=2), change("B", f=0)], [change("A", f=3), change("B", f=0)])
    (module,) = diff.changes
    assert (module.result, str(module.first_difference)) == (ResultChange.EQUAL, "0:sequential/0:A")


def test_pass_of_one_run_is_the_first_difference() -> None:
    diff = compared([change("A", f=2)], [change("New", g=1), change("A", f=2)])
    (module,) = diff.changes
    assert str(module.first_difference) == "0:sequential/0:New, only in the second run"
    assert module.first_difference is not None
    assert "+g: 1" in module.first_difference.diff.splitlines()
    assert str(diff.mirrored.changes[0].first_difference) == "0:sequential/0:New, only in the first run"


def test_renamed_pass_is_no_difference() -> None:
    diff = compared([change("Old", f=2), change("B", g=1)], [change("New", f=2), change("B", g=1)])
    (module,) = diff.modules
    assert (module.result, module.first_difference) == (ResultChange.EQUAL, None)


def test_replaced_passes_are_named_together() -> None:
    diff = compared([change("Old", f=2)], [change("Idle"), change("New", f=3)])
    text = "0:sequential/0:Old in the first run, 0:sequential/1:New in the second"
    assert str(diff.modules[0].first_difference) == text


def test_idle_pass_of_one_run_is_ignored() -> None:
    diff = compared([change("A", f=2)], [change("Idle"), change("A", f=2)])
    assert (diff.modules[0].result, diff.modules[0].first_difference) == (ResultChange.EQUAL, None)


def test_other_inputs_are_pointed_out() -> None:
    first, second = (RecordedRun.of(reported([change("A", g=2)], {"m": {"f": f}}).record(), "run") for f in (1, 2))
    (module,) = RunDiff.of(first, second).changes
    assert (module.has_other_input, str(module.first_difference)) == (True, "0:sequential/0:A")


def raising(message: str) -> apass.Pass[Any]:
    def fail(mod: Any, ctx: apass.PassContext) -> Any:
        raise ValueError(message)

    return apass.module_pass(fail, opt_level=0, name="Fail")


def test_new_failure_is_a_regression() -> None:
    diff = compared([change("A", f=2)], [change("A", f=2), raising("no")])
    (module,) = diff.changes
    failure = "ValueError: no (in 0:sequential/1:Fail)"
    assert (module.result, module.failures) == (ResultChange.FAILED, (None, failure))
    assert [str(item) for item in diff.regressions(9.0)] == [f"failure: m: {failure}"]
    assert (diff.mirrored.changes[0].result, diff.mirrored.regressions(0.0)) == (ResultChange.FIXED, ())


def test_other_failure_is_another_result() -> None:
    diff = compared([raising("no")], [raising("never")])
    assert diff.modules[0].result is ResultChange.DIFFERENT
    assert compared([raising("no")], [raising("no")]).changes == ()


def test_recovered_failure_is_no_failure() -> None:
    first = apass.First([raising("no"), change("A", f=2)])
    diff = compared([first], [change("A", f=2)])
    assert (diff.modules[0].failures, diff.modules[0].result) == ((None, None), ResultChange.EQUAL)


def test_statistics_and_remarks_are_compared() -> None:
    diff = compared([change("A"), change("A")], [change("A"), change("A", g=1)])
    (module,) = diff.changes
    assert (module.statistics, module.remarks) == ((), (("A: passed Set: set nothing",), ("A: passed Set: set g",)))
    diff = compared([change("A")], [change("A"), change("A")])
    (module,) = diff.changes
    assert [str(number) for number in module.statistics] == ["A: calls 1 -> 2 (+100.0%)"]


def test_missing_module_is_a_regression() -> None:
    passes = [change("A")]
    both = RecordedRun.of(reported(passes, {"m": {"f": 1}, "n": {"f": 2}}).record(), "run")
    one = RecordedRun.of(reported(passes, {"m": {"f": 1}}).record(), "run")
    diff = RunDiff.of(both, one)
    assert (diff.only_first, diff.only_second, len(diff.modules)) == (("n",), (), 1)
    assert [str(item) for item in diff.regressions(1.0)] == ["missing: n is only in the first run"]
    assert diff.mirrored.regressions(0.0) == ()


def test_slower_pass_beyond_the_bound_is_found() -> None:
    diff = RunDiff.of(timed("old", {"A": BASE, "B": BASE}), timed("new", {"A": SLOW, "B": BASE}))
    assert [(time.name, time.verdict.value) for time in diff.times] == [("A", "slower"), ("B", "noise")]
    assert [item.text.partition(":")[0] for item in diff.regressions(0.05)] == ["(all passes)", "A"]
    assert [str(item) for item in diff.regressions(0.15)] == ["time: A: 102.000 ms -> 122.400 ms (x 1.20)"]
    assert (diff.regressions(0.25), diff.mirrored.regressions(0.0)) == ((), ())


def test_single_samples_are_no_regression() -> None:
    diff = RunDiff.of(timed("old", {"A": [1.0]}), timed("new", {"A": [9.0]}))
    assert (diff.can_judge_times, diff.times[0].verdict.value, diff.regressions(0.0)) == (False, "unknown", ())


def test_noise_beyond_the_bound_is_no_regression() -> None:
    noisy = (0.100, 0.200, 0.200, 0.200, 0.200)
    diff = RunDiff.of(timed("old", {"A": BASE}), timed("new", {"A": noisy}))
    assert (diff.times[0].verdict.value, diff.regressions(0.1), diff.is_empty) == ("noise", (), True)


def test_short_pass_is_no_regression() -> None:
    short = [seconds / 200 for seconds in BASE]
    diff = RunDiff.of(
        timed("old", {"A": BASE, "B": short}), timed("new", {"A": BASE, "B": [2 * seconds for seconds in short]})
    )
    assert [(time.name, time.verdict.value) for time in diff.times] == [("A", "noise"), ("B", "slower")]
    assert diff.regressions(0.1) == ()


def test_grown_size_beyond_the_bound_is_found() -> None:
    first, second = (timed("run", {}, sizes={"bytes": size, "nodes": 7}) for size in (1000, 1100))
    diff = RunDiff.of(first, second)
    assert diff.regressions(0.1) == ()
    assert [str(item) for item in diff.regressions(0.09)] == ["size: m: bytes 1,000 -> 1,100 (+10.0%)"]
    assert diff.mirrored.regressions(0.0) == ()


def test_different_result_is_a_regression_on_request() -> None:
    first = timed("old", {}, outputs=(output("A", "x"),))
    second = timed("new", {}, outputs=(output("A", "y"),), result="other")
    diff = RunDiff.of(first, second)
    assert diff.regressions(0.0) == ()
    text = "result: m has another result; first pass that differs: 0:sequential/0:A"
    assert [str(item) for item in diff.regressions(0.0, allow_different=False)] == [text]


def test_new_random_result_is_a_regression() -> None:
    diff = RunDiff.of(timed("old", {}), timed("new", {}, is_repeatable=False))
    text = "unstable: m: the repetitions of the second run have other results"
    assert ([str(item) for item in diff.regressions(9.0)], diff.mirrored.regressions(0.0)) == ([text], ())


def test_failed_modules_have_no_times() -> None:
    first, second = timed("old", {"A": BASE}), timed("new", {"A": SLOW}, failure="no", result=None)
    assert RunDiff.of(first, second).times == ()


def test_runs_of_other_kinds_are_not_compared() -> None:
    journal = replace(timed("journal", {}), identity="files")
    message = "report identifies modules by their text, and journal by their files; compare two reports, or"
    with pytest.raises(apass.errors.InputError, match=message):
        RunDiff.of(timed("report", {}), journal)


def test_unknown_result_is_no_difference() -> None:
    module = RecordedModule(name="m")
    found = ModuleChange.of(module, module)
    assert (found.result, found.is_empty) == (ResultChange.UNKNOWN, True)
