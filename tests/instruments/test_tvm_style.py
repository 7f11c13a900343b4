"""Instruments copied from TVM's documentation run unchanged."""

from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

import apass

Module = dict[str, str]

SOURCE = """
@tvm.instrument.pass_instrument
class Logging:
    def __init__(self, name, skipped=""):
        self.name = name
        self.skipped = skipped

    def enter_pass_ctx(self):
        log(self.name, "enters")

    def exit_pass_ctx(self):
        log(self.name, "exits")

    # If pass name contains keyword, skip it by return False. (return True: not skip)
    def should_run(self, mod, pass_info):
        return not self.skipped or self.skipped not in pass_info.name

    def run_before_pass(self, mod, pass_info):
        log(self.name, "before", pass_info.name, mod["main"])

    def run_after_pass(self, mod, pass_info):
        log(self.name, "after", pass_info.name, mod["main"])


@tvm.instrument.pass_instrument
class Depth(tvm.instrument.PassInstrument):
    def __init__(self):
        super().__init__()
        self.depth = 0

    def run_before_pass(self, mod, info):
        self.depth += 1
        log("depth", self.depth, info)

    def run_after_pass(self, mod, info):
        self.depth -= 1


@tvm.instrument.pass_instrument
class Broken:
    def enter_pass_ctx(self):
        raise RuntimeError("cannot enter")
"""


def classes(log: list[str]) -> SimpleNamespace:
    """Return the classes of SOURCE, with apass in place of `tvm.instrument`."""
    instrument = SimpleNamespace(pass_instrument=apass.pass_instrument, PassInstrument=apass.PassInstrument)

    def write(*words: object) -> None:
        log.append(" ".join(map(str, words)))

    names: dict[str, Any] = {
        "__name__": "tvm_style",
        "tvm": SimpleNamespace(instrument=instrument),
        "log": write,
    }
    exec(SOURCE, names)
    return SimpleNamespace(**names)


@apass.module_pass(opt_level=0)
def FoldConstant(mod: Module, ctx: apass.PassContext) -> Module:
    return {"main": mod["main"] + " folded"}


@apass.module_pass(opt_level=0)
def AnnotateSpans(mod: Module, ctx: apass.PassContext) -> Module:
    return {"main": mod["main"] + " annotated"}


@pytest.mark.anyio
async def test_tvm_instrument_class_runs_unchanged() -> None:
    log: list[str] = []
    tvm_style = classes(log)
    instruments = [tvm_style.Logging("first"), tvm_style.Logging("second", "Annotate"), tvm_style.Depth()]
    async with apass.PassContext(instruments=instruments):
        mod = await apass.Sequential([FoldConstant, AnnotateSpans])({"main": "x"})
    assert mod == {"main": "x folded"}
    assert "\n".join(log) == dedent(
        """\
        first enters
        second enters
        first before sequential x
        second before sequential x
        depth 1 PassInfo(opt_level=0, name='sequential', required=())
        first before FoldConstant x
        second before FoldConstant x
        depth 2 PassInfo(opt_level=0, name='FoldConstant', required=())
        first after FoldConstant x folded
        second after FoldConstant x folded
        first after sequential x folded
        second after sequential x folded
        first exits
        second exits"""
    )


@pytest.mark.anyio
async def test_failing_enter_hook_disables_all_instruments() -> None:
    log: list[str] = []
    tvm_style = classes(log)
    context = apass.PassContext(instruments=[tvm_style.Logging("first"), tvm_style.Broken()])
    with pytest.raises(RuntimeError, match="cannot enter"):
        async with context:
            raise AssertionError("not reached")
    async with context:
        assert await FoldConstant({"main": "x"}) == {"main": "x folded"}
    assert log == ["first enters", "first exits"]
