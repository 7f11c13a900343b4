"""`If`: what it asks, and what it runs."""

from typing import Any

import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

import apass
from apass import PassContext, Sequential
from apass.errors import PassResultError
from apass.passes.conditional import If
from apass.testing import RecordingInstrument
from tests.helpers.combinators import Module, error_of, setting
from tests.helpers.recording import logging_pass


@settings(deadline=None)
@given(first=st.integers(0, 3), holds=st.booleans(), is_async=st.booleans(), has_other=st.booleans())
def test_if_runs_one_of_its_branches(backend: str, first: int, holds: bool, is_async: bool, has_other: bool) -> None:
    def plain(mod: Module) -> bool:
        return holds

    async def later(mod: Module) -> bool:
        await checkpoint()
        return holds

    then, otherwise = [setting(1), setting(2)], [setting(3)] if has_other else None
    mod = {"f": first}
    got = apass.run(If(later if is_async else plain, then, otherwise), mod, backend=backend)
    assert got == ({"f": 2} if holds else {"f": 3} if has_other else mod)
    assert got is not mod or (not holds and not has_other)


@pytest.mark.anyio
async def test_predicate_runs_in_the_run_of_if() -> None:
    seen: list[tuple[Module, tuple[str, ...]]] = []

    def predicate(mod: Module) -> bool:
        run = apass.current_run()
        assert run is not None
        seen.append((mod, run.path))
        return bool(mod)

    mod = {"f": 1}
    await Sequential([If(predicate, [setting(2)])])(mod)
    assert seen == [(mod, ("sequential", "If"))]


@pytest.mark.anyio
async def test_hooks_do_not_see_the_other_branch() -> None:
    log: list[str] = []
    async with PassContext(instruments=[RecordingInstrument("R", log)]):
        await If(lambda mod: False, [logging_pass(log, "A")], [logging_pass(log, "B")])({})
    assert [line for line in log if "run_before" in line] == ["R.run_before_pass If", "R.run_before_pass B"]


@pytest.mark.anyio
async def test_predicate_that_returns_none_raises() -> None:
    async def nothing(mod: Module) -> Any:
        return None

    error = await error_of(If(nothing, [setting(1)]), {})
    assert isinstance(error, PassResultError)
    assert str(error) == "the predicate of pass 'If' returned None; return a bool"


@pytest.mark.anyio
async def test_predicate_error_has_a_location_note() -> None:
    error = await error_of(Sequential([If(lambda mod: mod["g"], [setting(1)])]), {})
    assert (repr(error), error.__notes__) == ("KeyError('g')", ["in pass 'sequential > If'"])
