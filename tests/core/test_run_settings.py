"""`RunSettings`: what instruments change of the runner."""

from pathlib import Path
from typing import Any

import pytest

import apass
from apass import PassContext
from apass.instruments import AnswerRecorder, AnswerReplayer, DebugInstrument, RunSettings
from apass.testing import scheduled

Module = dict[str, int]


@apass.analysis
def total(mod: Module) -> int:
    return sum(mod.values())


@apass.module_pass(opt_level=0, preserves=[total])
async def Lie(mod: Module, ctx: PassContext) -> Module:
    await ctx.get(total, mod)
    return {"f": mod["f"] + 1}


def test_settings_of_instruments_are_merged(tmp_path: Path) -> None:
    apass.run("PrintIR", {"f": 1}, context=PassContext(instruments=[AnswerRecorder(tmp_path)]))
    replayer = AnswerReplayer(tmp_path)
    found = RunSettings.of([DebugInstrument(strict=True), replayer, scheduled(7)])
    assert (found.strict, found.answers, found.schedule) == (True, replayer, scheduled(7).schedule)
    assert found.without(RunSettings(strict=True)) == RunSettings(answers=replayer, schedule=found.schedule)
    assert found.for_worker()() == found
    assert PassContext(instruments=[replayer]).run_settings == RunSettings(answers=replayer)
    assert PassContext().run_settings == RunSettings()


def test_only_one_instrument_sets_the_schedule() -> None:
    message = "the instruments 'RunSettings' and 'RunSettings' both set 'schedule'; remove one of them"
    with pytest.raises(TypeError, match=message):
        PassContext(instruments=[scheduled(1), scheduled(2)])
    # Strictness is no choice between two.
    strict = PassContext(instruments=[RunSettings(strict=True), RunSettings(strict=True)])
    assert strict.run_settings.strict


def test_debug_instrument_checks_claims_of_passes() -> None:
    assert apass.run(Lie, {"f": 1}, context=PassContext(instruments=[DebugInstrument()])) == {"f": 2}
    with pytest.raises(apass.errors.VerifyError, match=r"'Lie' claims to preserve .*total, but that was 1 and is 2"):
        apass.run(Lie, {"f": 1}, context=PassContext(instruments=[DebugInstrument(strict=True)]))
    wrong: Any = "x"
    with pytest.raises(TypeError, match="strict must be True or False, got 'x'"):
        DebugInstrument(strict=wrong)
