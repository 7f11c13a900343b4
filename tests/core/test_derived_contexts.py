"""`PassContext.replace` and `extend`: contexts derived from another one."""

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass import DiagnosticContext, PassContext
from apass.instruments import DebugInstrument
from apass.stores import MemoryStore
from apass.testing import RecordingInstrument
from tests.helpers.recording import logging_pass

NAMES = [field.name for field in fields(PassContext) if not field.name.startswith("_")]

OPTIONS: dict[str, Any] = {
    "opt_level": 3,
    "required_pass": frozenset({"A"}),
    "disabled_pass": frozenset({"B"}),
    "instruments": (RecordingInstrument("R", []),),
    "config": {"derived.Option": 5},
    "diag_ctx": DiagnosticContext(),
    "max_concurrency": 7,
    "exit_grace": 2.5,
    "executor": "thread",
    "deadline": 60.0,
    "store": MemoryStore(),
}
apass.register_config_option("derived.Option", int, 0)


WRONG_VALUE: Any = {"opt_level": "3"}
WRONG_NAME: Any = {"level": 3}


def settings_of(ctx: PassContext) -> dict[str, Any]:
    """Return what a context was made from, except for its instruments."""
    return {name: getattr(ctx, name) for name in NAMES}


@given(st.sets(st.sampled_from(sorted(OPTIONS))), st.sets(st.sampled_from(sorted(OPTIONS))))
def test_replace_keeps_all_other_options(before: set[str], changed: set[str]) -> None:
    ctx = PassContext(**{name: OPTIONS[name] for name in before})
    derived = ctx.replace(**{name: OPTIONS[name] for name in changed})
    expected = {**settings_of(ctx), **{name: OPTIONS[name] for name in changed if name in NAMES}}
    assert {**settings_of(derived), "config": dict(derived.config)} == {**expected, "config": dict(expected["config"])}
    has_recorder = "instruments" in before | changed
    assert (OPTIONS["instruments"][0] in derived.instruments) == has_recorder
    assert derived is not ctx
    assert derived.analyses is not ctx.analyses


def test_replace_checks_its_options() -> None:
    with pytest.raises(TypeError, match="opt_level must be an int, got '3'"):
        PassContext().replace(**WRONG_VALUE)
    with pytest.raises(TypeError, match="unexpected keyword argument 'level'"):
        PassContext().replace(**WRONG_NAME)


def test_extend_adds_to_what_is_there() -> None:
    first, second = RecordingInstrument("A", []), RecordingInstrument("B", [])
    ctx = PassContext(1, ["A"], ["B"], [first], {"derived.Option": 1}, exit_grace=3)
    more = ctx.extend(instruments=[second], required_pass=["C"], disabled_pass=["D"], config={"derived.Option": 2})
    assert more.instruments == (first, second)
    assert (sorted(more.required_pass), sorted(more.disabled_pass)) == (["A", "C"], ["B", "D"])
    assert (dict(more.config), more.opt_level, more.exit_grace) == ({"derived.Option": 2}, 1, 3)
    assert ctx.instruments == (first,)
    with pytest.raises(TypeError, match="required_pass must be a list or set of names, got the string 'C'"):
        ctx.extend(required_pass="C")


@pytest.mark.anyio
@pytest.mark.parametrize("by_default", [True, False])
async def test_instruments_of_debug_mode_are_not_doubled(by_default: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if by_default:
        monkeypatch.setenv("APASS_DEBUG", "1")
    ctx = PassContext(instruments=[RecordingInstrument("R", []), *([] if by_default else [DebugInstrument()])])
    async with ctx.replace() as derived:
        pass
    kinds = [type(instrument) for instrument in ctx.instruments]
    assert [type(instrument) for instrument in derived.instruments] == kinds
    assert [kind.__name__ for kind in kinds[1:]] == ["HonestChangeInstrument", "RecordingInstrument", "DebugInstrument"]


@pytest.mark.anyio
async def test_instruments_in_force_are_derived() -> None:
    log: list[str] = []
    ctx = PassContext(instruments=[RecordingInstrument("Old", log)])
    await ctx.override_instruments([RecordingInstrument("New", log)])
    async with ctx.replace():
        await logging_pass(log, "A")({})
    assert log == [
        "New.enter_pass_ctx",
        *("New.should_run A", "New.run_before_pass A", "run A", "New.run_after_pass A"),
        "New.exit_pass_ctx",
    ]


@pytest.mark.anyio
async def test_failed_instruments_are_not_derived() -> None:
    @apass.pass_instrument
    class Failing:
        def enter_pass_ctx(self) -> None:
            raise ValueError("no")

    ctx = PassContext(instruments=[Failing()])
    with pytest.raises(ValueError, match="no"):
        async with ctx:
            pass
    assert ctx.replace().instruments == ()


@pytest.mark.anyio
async def test_diagnostics_are_shared() -> None:
    ctx = PassContext()
    assert ctx.extend().diag_ctx is ctx.diag_ctx
    assert ctx.replace(diag_ctx=None).diag_ctx is not ctx.diag_ctx
