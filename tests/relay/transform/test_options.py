"""Passes made with options of their own: known by them, whether made by name or directly."""

import pytest

from apass import PassContext, get_pass, relay
from apass.batch.journal import describe_run
from apass.executors import ProcessExecutor
from apass.relay import IRModule, transform
from apass.stores import MemoryStore

pytestmark = pytest.mark.anyio

MODULE: IRModule = relay.parse(
    """#[version = "0.0.5"]
    def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { add(%x, exp(exp(%x))) }"""
)


def test_a_pass_made_directly_is_the_one_made_by_name_with_the_same_options() -> None:
    made = transform.FuseOps(fuse_opt_level=2)
    assert (str(made), made) == ("FuseOps{fuse_opt_level=2}", get_pass("FuseOps", fuse_opt_level=2))
    assert made == transform.FuseOps(2)
    assert made != transform.FuseOps(0)
    assert str(transform.FuseOps()) == "FuseOps"


async def test_a_kept_result_is_not_taken_for_that_of_other_options() -> None:
    store = MemoryStore()
    passes = [transform.FuseOps(0), transform.FuseOps(2), get_pass("FuseOps", fuse_opt_level=2)]
    wanted = [str(await one(MODULE)) for one in passes]
    made: list[str] = []
    taken: list[int] = []
    for one in passes:
        async with PassContext(store=store) as ctx:
            made.append(str(await one(MODULE)))
        taken.append(ctx.analyses.counts["pass stored"])
    assert made == wanted
    assert wanted[0] != wanted[1]
    # And where the options are the same, it makes no difference how the pass was made.
    assert taken == [0, 0, 1]


def _always(_call: relay.Expr) -> bool:
    return True


def _never(_call: relay.Expr) -> bool:
    return False


async def test_what_has_no_text_tells_passes_apart_as_well() -> None:
    store = MemoryStore()
    module = relay.parse("def @main(%x: float32) { add(exp(%x), exp(%x)) }")
    made: list[str] = []
    for skip in (_always, _never):
        async with PassContext(store=store):
            made.append(str(await transform.EliminateCommonSubexpr(skip)(module)))
    assert made[0] != made[1]


async def test_a_pass_made_directly_goes_to_another_process() -> None:
    fuse = transform.FuseOps(fuse_opt_level=2)
    async with PassContext(executor=ProcessExecutor(workers=1)):
        assert relay.structural_equal(await fuse(MODULE), await fuse.transform(MODULE, PassContext()))


def test_a_journal_tells_options_apart() -> None:
    runs = [describe_run({"main": one}, PassContext()) for one in (transform.FuseOps(0), transform.FuseOps(2))]
    assert runs[0] != runs[1]
