"""Facts that a serialized module omits, such as Relay types, survive executors."""

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


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("executor", [THREADS, PROCESSES], ids=["threads", "processes"])
async def test_whole_pass_returns_the_same_types_as_inline(executor: Executor) -> None:
    expected = await PIPELINE(MODULE)
    result = await optimize_all({"m": MODULE}, PIPELINE, executor=executor)
    assert expected["main"].checked_type_ is not None
    assert result["m"]["main"].checked_type_ == expected["main"].checked_type_
    assert text(result["m"]) == text(expected)


async def test_bodies_return_the_same_types_as_inline() -> None:
    typed = await transform.InferType()(MODULE)
    expected = await transform.FoldConstant()(typed)
    async with PassContext(executor=PROCESSES):
        result = await transform.FoldConstant()(typed)
    assert text(result) == text(expected)


async def test_untyped_result_stays_untyped() -> None:
    result = await optimize_all({"m": MODULE}, parse_pipeline("ToANormalForm"), executor=PROCESSES)
    assert text(result["m"]) == text(await transform.ToANormalForm()(MODULE))


async def test_journal_keeps_types(tmp_path: Path) -> None:
    runs = [await optimize_all({"m": MODULE}, PIPELINE, journal=tmp_path / "journal") for _ in range(2)]
    assert text(runs[1]["m"]) == text(runs[0]["m"])
    assert runs[1]["m"]["main"].checked_type_ is not None
