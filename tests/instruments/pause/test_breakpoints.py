"""Breakpoints: their texts, and where each of them pauses."""

from typing import Any

import pytest

import apass
from apass import Race, Repeat, Sequential
from apass.instruments import ErrorBreakpoint, PauseInstrument, WaitBreakpoint, parse_breakpoint
from tests.helpers.pauses import Add, Square, paused, run_paused

pytestmark = pytest.mark.anyio

Module = dict[str, int]

PIPELINE = Sequential([Add(), Sequential([Square(), Add(5)], name="inner")])


@apass.module_pass(opt_level=0)
def Keep(mod: Module, ctx: apass.PassContext) -> Module:
    return dict(mod)


@apass.module_pass(opt_level=0)
def Fail(mod: Module, ctx: apass.PassContext) -> Module:
    raise ValueError("no")


@pytest.mark.parametrize(
    "text", ["pass:A.*", "function:f", "module:a:b", "changed:f", "text:x: y", "error", "wait:0.5"]
)
def test_text_survives_parsing(text: str) -> None:
    assert str(parse_breakpoint(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pas:A", r"unknown kind of breakpoint 'pas' in 'pas:A'; did you mean 'pass'\?"),
        ("", "unknown kind of breakpoint '' in ''; kinds are changed, error"),
        ("pass:", "the breakpoint 'pass:' has no value; expected pass:NAME"),
        ("error:x", "the breakpoint 'error:x' has a value; expected 'error' alone"),
        ("wait:soon", "needs a positive number of seconds, got 'soon'"),
        ("wait:0", "needs a positive number of seconds, got '0'"),
        ("wait:nan", "needs a positive number of seconds, got 'nan'"),
    ],
)
def test_invalid_texts_raise(text: str, message: str) -> None:
    with pytest.raises(apass.errors.BreakpointError, match=message):
        parse_breakpoint(text)


async def test_pass_pauses_before_each_run() -> None:
    run = await paused(PIPELINE, [], "pass:pauses.A*")
    assert run.log == [
        "before 0:sequential/0:pauses.Add pass:pauses.A*",
        "before 0:sequential/1:inner/1:pauses.Add pass:pauses.A*",
    ]
    assert run.result == {"f": 14, "g": 9}


async def test_function_pauses_before_its_function_passes() -> None:
    assert (await paused(PIPELINE, [], "function:g")).log == ["before 0:sequential/1:inner/0:pauses.Square function:g"]
    assert (await paused(PIPELINE, [], "function:h")).log == []


async def test_module_pauses_before_its_first_pass() -> None:
    run = await run_paused(PIPELINE, {"a": {"f": 1}, "b": {"f": 2}}, PauseInstrument(["module:b"]))
    assert run.log == ["b: before 0:sequential module:b"]
    assert run.results == {"a": {"f": 9}, "b": {"f": 14}}


async def test_changed_pauses_where_change_is_made() -> None:
    run = await paused(Sequential([Keep, PIPELINE]), [], "changed:g")
    assert run.log == ["after 0:sequential/1:sequential/1:inner/0:pauses.Square changed:g"]
    assert "-g: 3\n+g: 9" in run.pauses[0].diff


async def test_combinators_make_no_changes() -> None:
    run = await paused(Sequential([Repeat([Add()], times=2), Race([Add(7), Add(8)])]), [], "changed:f")
    assert [line.split("/")[-1] for line in run.log[:2]] == ["0:pauses.Add changed:f", "1:pauses.Add changed:f"]
    assert all("pauses.Add" in line for line in run.log)


async def test_change_after_inner_pass_is_own() -> None:
    @apass.module_pass(opt_level=0)
    async def Outer(mod: Module, ctx: apass.PassContext) -> Module:
        return {**await Add()(mod), "g": 0}

    assert (await paused(Outer, [], "changed:f")).log == ["after 0:Outer/0:pauses.Add changed:f"]
    assert (await paused(Outer, [], "changed:g")).log == ["after 0:Outer changed:g"]


async def test_change_before_inner_pass_is_own() -> None:
    @apass.module_pass(opt_level=0)
    async def Outer(mod: Module, ctx: apass.PassContext) -> Module:
        return await Keep({**mod, "g": 0})

    assert (await paused(Outer, [], "changed:g")).log == ["after 0:Outer changed:g"]


async def test_text_pauses_where_it_appears() -> None:
    run = await paused(PIPELINE, [], "text:9")
    assert run.log == ["after 0:sequential/1:inner/0:pauses.Square text:9"]
    assert (await paused(PIPELINE, [], "text:2")).log == []


async def test_error_pauses_where_it_is_raised() -> None:
    run = await paused(Sequential([Sequential([Fail], name="inner")]), [], "error")
    assert run.log == ["failed 0:sequential/0:inner/0:Fail error"]
    assert isinstance(run.result, ValueError)
    assert run.pauses[0].error is run.result


async def test_breakpoints_are_added_and_removed() -> None:
    pauses = PauseInstrument(["error"])
    assert pauses.add("pass:A") == pauses.add(parse_breakpoint("pass:A"))
    assert list(map(str, pauses.breakpoints)) == ["error", "pass:A"]
    pauses.remove(ErrorBreakpoint())
    with pytest.raises(apass.errors.PauseError, match=r"there is no breakpoint 'error'; the breakpoints are: pass:A"):
        pauses.remove("error")
    with pytest.raises(apass.errors.PauseError, match="create the instrument with watch_waits"):
        pauses.add(WaitBreakpoint(1.0))


def test_wrong_arguments_raise() -> None:
    others: Any = "halt"
    with pytest.raises(ValueError, match="others must be 'run' or 'stop', got 'halt'"):
        PauseInstrument(others=others)
    with pytest.raises(ValueError, match="breakpoints must be a list of breakpoints, got 'error'"):
        PauseInstrument("error")
    with pytest.raises(ValueError, match="watch_waits must be True or None"):
        PauseInstrument(["wait:1"], watch_waits=False)
