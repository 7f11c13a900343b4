"""TVM's own context and target around a run."""

from typing import Any

import pytest

import apass
from apass.adapters.tvm.adapter import ADAPTER
from apass.adapters.tvm.bridge import from_tvm
from apass.adapters.tvm.library import tvm
from tests.helpers.rows import row
from tests.helpers.tvm_modules import shared

pytestmark = pytest.mark.anyio

PASS = "tvm.relax.EliminateCommonSubexpr"


def test_disabled_pass_of_the_ambient_context_is_skipped() -> None:
    mod = shared()
    pipelines: list[Any] = [
        apass.get_pass(PASS),
        apass.Sequential([apass.get_pass(PASS), apass.get_pass(PASS)]),
        from_tvm(tvm.relax.transform.EliminateCommonSubexpr()),
    ]
    for pipeline in pipelines:
        with row(str(pipeline)):
            assert not ADAPTER.equal(apass.run(pipeline, mod), mod)
            with tvm.transform.PassContext(disabled_pass=["EliminateCommonSubexpr"]):
                assert ADAPTER.equal(apass.run(pipeline, mod), mod)


async def test_ambient_target_and_config_reach_passes() -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    def see(mod: Any, ctx: Any) -> Any:
        seen.append((str(tvm.target.Target.current()), dict(ctx.config)))
        return mod

    pass_ = from_tvm(tvm.transform.module_pass(see, opt_level=0))
    config = {"relax.FuseOps.max_depth": 3}
    with tvm.target.Target("llvm") as target, tvm.transform.PassContext(config=config):
        await pass_(shared())
        async with apass.PassContext(config={"tvm.target": "c", "tvm.relax.FuseOps.max_depth": 4}):
            await pass_(shared())
    assert seen[0] == (str(target), config)
    assert ('"kind":"c"' in seen[1][0], seen[1][1]) == (True, {"relax.FuseOps.max_depth": 4})


def test_pass_with_ambient_target_runs_in_this_process() -> None:
    # A worker would not have the target.
    with tvm.target.Target("llvm"):
        result = apass.run("tvm.pipeline.zero", shared())
    assert ADAPTER.equal(result, apass.run("tvm.pipeline.zero", shared()))
    with tvm.transform.PassContext(disabled_pass=["FoldConstant"]):
        assert apass.run(from_tvm(tvm.relax.transform.FoldConstant()), mod := shared()) is mod


def test_ambient_context_disables_the_result_cache() -> None:
    pass_ = apass.get_pass(PASS)
    ctx = apass.PassContext()
    assert pass_.own_cache_key(ctx) is not None
    with tvm.transform.PassContext(config={"relax.FuseOps.max_depth": 3}):
        assert pass_.own_cache_key(ctx) is None


def test_unused_part_of_ambient_context_is_a_warning() -> None:
    mod = shared()
    rows = {
        "the level 3 of TVM's PassContext is not used": tvm.transform.PassContext(opt_level=3),
        "the instruments of TVM's PassContext are not called": tvm.transform.PassContext(
            instruments=[tvm.instrument.PassTimingInstrument()]
        ),
    }
    for text, context in rows.items():
        ctx = apass.PassContext()
        with row(text), context:
            apass.run(apass.get_pass(PASS), mod, context=ctx)
            assert [diagnostic.message for diagnostic in ctx.diag_ctx.diagnostics if text in diagnostic.message]
