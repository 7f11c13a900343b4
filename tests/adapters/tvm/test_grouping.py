"""Passes of TVM on groups of functions, and several in one call of a thread."""

import threading
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass.adapters.tvm import ADAPTER
from apass.adapters.tvm.bridge import TVMPrimFuncPass
from apass.adapters.tvm.grouping import Step, part_of, run_steps
from apass.adapters.tvm.library import tvm
from apass.errors import AdapterError
from apass.testing import RecordingInstrument
from tests.helpers.context_state import state_of
from tests.helpers.tvm_modules import Pausing, crowd, legalized, mixed, shared

relax = tvm.relax

SAFE = ["CanonicalizeBindings", "EliminateCommonSubexpr", "DeadCodeElimination", "Normalize", "FuseOps"]


@pytest.mark.anyio
async def test_groups_of_functions_give_the_result_of_tvm() -> None:
    mod = crowd(20)
    result = await apass.from_tvm(tvm.tirx.transform.StmtSimplify())(mod)
    expected = tvm.tirx.transform.StmtSimplify()(mod)
    for name, func in ADAPTER.functions(mod):
        if ADAPTER.skips(func) or not isinstance(func, tvm.tirx.PrimFunc):
            assert result[name].same_as(func), name
        else:
            assert ADAPTER.equal(result[name], expected[name]), name
    assert not ADAPTER.equal(result["shift1"], mod["shift1"])


@given(names=st.lists(st.sampled_from(SAFE), max_size=5), inner=st.integers(0, 5), is_small=st.booleans())
def test_merged_passes_give_the_result_of_tvm(names: list[str], inner: int, is_small: bool) -> None:
    makers = [getattr(relax.transform, name) for name in names]
    sequence = tvm.transform.Sequential(
        [make() for make in makers[inner:]] + [tvm.transform.Sequential([make() for make in makers[:inner]])]
    )
    mod = legalized(is_small=is_small)
    assert ADAPTER.equal(apass.run(apass.from_tvm(sequence), mod), sequence(mod))


@pytest.mark.anyio
async def test_merged_passes_that_change_nothing_return_their_input() -> None:
    mod = relax.transform.DeadCodeElimination()(relax.transform.Normalize()(shared()))
    pipeline = apass.from_tvm(tvm.transform.Sequential([relax.transform.Normalize(), relax.transform.FuseOps()]))
    assert await pipeline(mod) is mod


@pytest.mark.anyio
async def test_instruments_see_each_pass() -> None:
    pipeline = apass.from_tvm(
        tvm.transform.Sequential([relax.transform.Normalize(), relax.transform.EliminateCommonSubexpr()])
    )
    recorder = RecordingInstrument("r")
    async with apass.PassContext(instruments=[recorder]):
        await pipeline(shared())
    assert [line.split()[1] for line in recorder.log if "before" in line] == [
        "sequential",
        "Normalize",
        "EliminateCommonSubexpr",
    ]


@pytest.mark.anyio
async def test_context_selects_merged_passes() -> None:
    passes = [relax.transform.Normalize(), relax.transform.EliminateCommonSubexpr()]
    pipeline = apass.from_tvm(tvm.transform.Sequential(passes))
    async with apass.PassContext(disabled_pass=["EliminateCommonSubexpr"]):
        assert ADAPTER.equal(await pipeline(shared()), relax.transform.Normalize()(shared()))
    assert ADAPTER.equal(await pipeline(shared()), passes[1](passes[0](shared())))


@pytest.mark.anyio
async def test_error_names_the_function() -> None:
    def fail(func: Any, _mod: Any, _ctx: Any) -> Any:
        if func.attrs["global_symbol"] == "shift4":
            raise ValueError("cannot do")
        return func

    target = tvm.tirx.transform.prim_func_pass(fail, opt_level=0, name="Fail")
    with pytest.raises(AdapterError, match="cannot do") as caught:
        await TVMPrimFuncPass(target)(crowd(5))
    assert caught.value.__notes__ == ["in pass 'Fail', function 'shift4'"]


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_cancelled_steps_start_no_other() -> None:
    pausing = Pausing()
    steps = [Step(pausing.wait), Step(pausing.later)]
    async with apass.PassContext() as ctx, anyio.create_task_group() as group:
        group.start_soon(run_steps, steps, crowd(20), ctx)
        await pausing.started.wait()
        group.cancel_scope.cancel()
        pausing.release.set()
    assert pausing.ran == ["wait"]


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_cancelled_steps_on_small_module_start_no_other() -> None:
    ran: list[str] = []

    def first(mod: Any, _ctx: Any) -> Any:
        ran.append("first")
        group.cancel_scope.cancel()
        return mod

    def second(mod: Any, _ctx: Any) -> Any:
        ran.append("second")
        return mod

    steps = [Step(tvm.transform.module_pass(run, opt_level=0, name="Run")) for run in (first, second)]
    async with apass.PassContext() as ctx, anyio.create_task_group() as group:
        # Each time slice is over at once.
        state_of(ctx).scheduler.slice_ends = 0.0
        await run_steps(steps, shared(), ctx)
    assert ran == ["first"]


@pytest.mark.anyio
async def test_module_that_grows_moves_to_a_thread() -> None:
    threads: list[bool] = []
    large = legalized(is_small=False)

    def grow(mod: Any, _ctx: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return large

    steps = [Step(tvm.transform.module_pass(grow, opt_level=0, name="Grow"))] * 2
    async with apass.PassContext() as ctx:
        state_of(ctx).scheduler.slice_ends = 0.0
        assert ADAPTER.equal(await run_steps(steps, shared(), ctx), large)
    assert threads == [True, False]


def test_part_has_what_a_pass_sees() -> None:
    mod = mixed().with_attr("kept", 1)
    relax_part = part_of(mod, ["main"], "function")
    assert sorted(name for name, _ in ADAPTER.functions(relax_part)) == ["main", "scale", "shift"]
    tir_part = part_of(mod, ["shift"], "prim_func")
    assert [name for name, _ in ADAPTER.functions(tir_part)] == ["shift"]
    assert int(relax_part.attrs["kept"]) == int(tir_part.attrs["kept"]) == 1


@pytest.mark.anyio
async def test_hooks_of_functions_see_each_function() -> None:
    seen: list[str | None] = []

    class Functions(apass.PassInstrument):
        def run_before_function(self, func: Any, run: apass.Run) -> None:
            seen.append(run.function)

    async with apass.PassContext(instruments=[Functions()]):
        await apass.from_tvm(tvm.tirx.transform.StmtSimplify())(crowd(5))
    assert sorted(map(str, seen)) == ["shift1", "shift2", "shift4"]
