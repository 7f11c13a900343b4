"""Timings as lists and as JSON, and the slowest functions."""

import json
from textwrap import dedent

import pytest

import apass
from apass.instruments import (
    FunctionTiming,
    FunctionTimingInstrument,
    PassTiming,
    render_functions,
    render_modules,
    render_passes,
    timings_as_json,
    timings_by_module,
    timings_by_pass,
)
from tests.helpers.crowd import Module, failing


def timing(
    name: str, module: str | None, wall: float, busy: float, *children: PassTiming, failed: int = 0
) -> PassTiming:
    return PassTiming(
        name=name, module=module, calls=1, failed=failed, unfinished=0, wall=wall, busy=busy, children=children
    )


PROFILE = (
    timing("sequential", "a", 1.0, 0.5, timing("Fold", "a", 0.25, 0.25), timing("Fold", "a", 0.5, 0.125, failed=1)),
    timing("sequential", "b", 2.0, 0.5, timing("Tune", "b", 1.5, 0.25, timing("Fold", "kernel", 1.0, 0.25))),
    timing("Fold", "a", 0.5, 0.5),
)


def test_list_of_passes_merges_positions_longest_first() -> None:
    assert render_passes(timings_by_pass(PROFILE)) == dedent(
        """\
         wall ms   busy ms  waiting ms  of all  pass
        3000.000  1000.000    2000.000   44.4%  sequential (2 calls)
        2250.000  1125.000    1125.000   33.3%  Fold (4 calls, 1 failed)
        1500.000   250.000    1250.000   22.2%  Tune"""
    )


def test_list_of_modules_counts_only_outermost_passes() -> None:
    assert render_modules(timings_by_module(PROFILE)) == dedent(
        """\
         wall ms   busy ms  waiting ms  of all  module
        2000.000   500.000    1500.000   44.4%  b
        1500.000  1000.000     500.000   33.3%  a
        1000.000   250.000     750.000   22.2%  kernel"""
    )
    assert [(item.module, item.name) for item in timings_by_module(PROFILE)] == [
        ("b", "sequential"),
        ("a", "sequential+Fold"),
        ("kernel", "Fold"),
    ]


def test_list_of_functions_names_module_and_pass() -> None:
    slow = FunctionTiming(module="a", function="f", path="sequential/Tune", failed=True, wall=0.5, busy=0.25)
    fast = FunctionTiming(module=None, function="main", path="Tune", failed=False, wall=0.01, busy=0.01)
    assert render_functions([slow, fast]) == dedent(
        """\
        wall ms  busy ms  waiting ms  function  pass
        500.000  250.000     250.000  a:f       sequential/Tune (failed)
         10.000   10.000       0.000  main      Tune"""
    )


def test_empty_lists_render_a_message() -> None:
    assert (render_passes([]), render_modules([]), render_functions([])) == (
        "no pass was timed",
        "no pass was timed",
        "no function was timed",
    )


def test_json_contains_the_tree_and_the_lists() -> None:
    slow = FunctionTiming(module="a", function="f", path="Tune", failed=False, wall=0.5, busy=0.25)
    fold = {
        "calls": 1,
        "failed": 0,
        "unfinished": 0,
        "wall": 0.5,
        "busy": 0.5,
        "waiting": 0.0,
        "hooks_wall": 0.0,
        "hooks_busy": 0.0,
    }
    shown = json.loads(json.dumps(timings_as_json(PROFILE[2:], [slow])))
    assert shown == {
        "version": 1,
        "passes": [{"name": "Fold", "module": "a", **fold, "children": []}],
        "by_pass": [{"name": "Fold", "module": None, **fold}],
        "by_module": [{"name": "Fold", "module": "a", **fold}],
        "functions": [
            {
                "function": "f",
                "module": "a",
                "path": "Tune",
                "failed": False,
                "wall": 0.5,
                "busy": 0.25,
                "waiting": 0.25,
            }
        ],
    }


@pytest.mark.anyio
async def test_only_the_slowest_functions_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("apass.runner.function_hooks.perf_counter", lambda: now[0])

    @apass.function_pass(opt_level=0)
    def Spend(func: int, mod: Module, ctx: apass.PassContext) -> int:
        now[0] += func
        if func == 9:
            raise ValueError(func)
        return func

    instrument = FunctionTimingInstrument(top=3)
    modules = {"m": {f"f{n}": n for n in range(6)}, "n": {"g": 9}}
    async with apass.PassContext(instruments=[instrument]):
        outcomes = await apass.optimize_all(modules, Spend, errors="collect")
    assert failing(outcomes) == {"n"}
    assert [(item.module, item.function, item.failed, item.wall, item.path) for item in instrument.slowest()] == [
        ("n", "g", True, 9.0, "Spend"),
        ("m", "f5", False, 5.0, "Spend"),
        ("m", "f4", False, 4.0, "Spend"),
    ]
    instrument.reset()
    assert (instrument.slowest(), instrument.render()) == ((), "no function was timed")


@pytest.mark.parametrize("top", [0, -1, True])
def test_invalid_top_raises_value_error(top: int) -> None:
    with pytest.raises(ValueError, match="top must be an int of at least 1"):
        FunctionTimingInstrument(top=top)
