"""Options are part of a pass, made by name or directly."""

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


def test_pass_equals_pass_made_by_name() -> None:
    pass_ = transform.FuseOps(fuse_opt_level=2)
    assert (str(pass_), pass_) == ("FuseOps{fuse_opt_level=2}", get_pass("FuseOps", fuse_opt_level=2))
    assert pass_ == transform.FuseOps(2)
    assert pass_ != transform.FuseOps(0)
    assert str(transform.FuseOps()) == "FuseOps"


async def test_stored_result_depends_on_options() -> None:
    store = MemoryStore()
    passes = [transform.FuseOps(0), transform.FuseOps(2), get_pass("FuseOps", fuse_opt_level=2)]
    expected = [str(await pass_(MODULE)) for pass_ in passes]
    results: list[str] = []
    hits: list[int] = []
    for pass_ in passes:
        async with PassContext(store=store) as ctx:
            results.append(str(await pass_(MODULE)))
        hits.append(ctx.analyses.counts["pass stored"])
    assert results == expected
    assert expected[0] != expected[1]
    # A pass with equal options is a cache hit, whether it was made directly or by name.
    assert hits == [0, 0, 1]


def _always(_call: relay.Expr) -> bool:
    return True


def _never(_call: relay.Expr) -> bool:
    return False


async def test_stored_result_depends_on_function_option() -> None:
    store = MemoryStore()
    module = relay.parse("def @main(%x: float32) { add(exp(%x), exp(%x)) }")
    results: list[str] = []
    for skip in (_always, _never):
        async with PassContext(store=store):
            results.append(str(await transform.EliminateCommonSubexpr(skip)(module)))
    assert results[0] != results[1]


@pytest.mark.process
@pytest.mark.slow
async def test_pass_with_options_runs_in_process_executor() -> None:
    fuse = transform.FuseOps(fuse_opt_level=2)
    async with PassContext(executor=ProcessExecutor(workers=1)):
        assert relay.structural_equal(await fuse(MODULE), await fuse.transform(MODULE, PassContext()))


def test_journal_entry_depends_on_options() -> None:
    runs = [describe_run({"main": pass_}, PassContext()) for pass_ in (transform.FuseOps(0), transform.FuseOps(2))]
    assert runs[0] != runs[1]
