"""What the bytes of a module leave out, such as the types of Relay, comes through executors and journals too."""

from pathlib import Path

import pytest

from apass import PassContext, optimize_all, parse_pipeline, relay
from apass.executors import Executor, ProcessExecutor, ThreadExecutor
from apass.relay import IRModule, transform

pytestmark = pytest.mark.anyio

PROCESSES = ProcessExecutor(workers=1)
THREADS = ThreadExecutor(workers=1)
MODULE: IRModule = relay.parse(
    """#[version = "0.0.5"]
    def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { add(%x, add(1f, 2f)) }"""
)
PIPELINE = parse_pipeline("InferType,FoldConstant")


def text(mod: IRModule) -> str:
    return mod.astext(show_meta_data=True)


@pytest.mark.parametrize("executor", [THREADS, PROCESSES], ids=["threads", "processes"])
async def test_a_whole_pass_gives_the_types_that_it_gives_inline(executor: Executor) -> None:
    wanted = await PIPELINE(MODULE)
    made = await optimize_all({"m": MODULE}, PIPELINE, executor=executor)
    assert wanted["main"].checked_type_ is not None
    assert made["m"]["main"].checked_type_ == wanted["main"].checked_type_
    assert text(made["m"]) == text(wanted)


async def test_so_do_bodies() -> None:
    typed = await transform.InferType()(MODULE)
    wanted = await transform.FoldConstant()(typed)
    async with PassContext(executor=PROCESSES):
        made = await transform.FoldConstant()(typed)
    assert text(made) == text(wanted)


async def test_a_pass_that_gives_no_types_gives_none() -> None:
    made = await optimize_all({"m": MODULE}, parse_pipeline("ToANormalForm"), executor=PROCESSES)
    assert text(made["m"]) == text(await transform.ToANormalForm()(MODULE))


async def test_what_a_journal_kept_has_the_types_that_it_had(tmp_path: Path) -> None:
    runs = [await optimize_all({"m": MODULE}, PIPELINE, journal=tmp_path / "journal") for _ in range(2)]
    assert text(runs[1]["m"]) == text(runs[0]["m"])
    assert runs[1]["m"]["main"].checked_type_ is not None
