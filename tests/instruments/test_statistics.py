"""`StatisticsInstrument`, and the statistics of the passes of apass."""

from textwrap import dedent

import anyio
import anyio.to_thread

import apass
from apass.instruments import PassStatistic, StatisticsInstrument
from apass.relay.parser import parse
from tests.helpers.crowd import Module

PROGRAM = """#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32]) {
  let %dead = negative(%x);
  %0 = add(2f, 3f);
  %1 = multiply(%x, %0);
  %2 = multiply(%x, %0);
  add(%1, %2)
}
"""


@apass.module_pass(opt_level=0)
async def Count(mod: Module, ctx: apass.PassContext) -> Module:
    ctx.statistic("modules")
    ctx.statistic("seconds saved", 0.25)
    await anyio.to_thread.run_sync(ctx.statistic, "from a thread", len(mod))
    return mod


def test_statistics_are_summed_for_each_pass() -> None:
    statistics = StatisticsInstrument()
    context = apass.PassContext(instruments=[statistics])
    context.statistic("outside", 12_345)
    apass.run(apass.Sequential([Count, Count]), {"f": 1, "g": 2}, context=context)
    assert statistics.render() == dedent(
        """\
        outside of any pass
          12345  outside
        Count
              4  from a thread
              2  modules
            0.5  seconds saved"""
    )
    assert statistics.as_json() == {
        "version": 1,
        "statistics": {"": {"outside": 12_345}, "Count": {"from a thread": 4, "modules": 2, "seconds saved": 0.5}},
    }
    statistics.reset()
    assert statistics.render() == "no pass counted anything"


def test_relay_passes_count_their_rewrites() -> None:
    statistics = StatisticsInstrument()
    context = apass.PassContext(opt_level=3, instruments=[statistics])
    pipeline = apass.parse_pipeline("FoldConstant,EliminateCommonSubexpr,DeadCodeElimination")
    apass.run(pipeline, parse(PROGRAM), context=context)
    assert statistics.totals() == (
        PassStatistic("DeadCodeElimination", "dropped", 1),
        PassStatistic("EliminateCommonSubexpr", "eliminated", 1),
        PassStatistic("FoldConstant", "folded", 1),
    )
