"""`examples/measure_candidates.py`: faster forms are chosen, wrong ones rejected."""

import anyio
import numpy as np
import onnx_ir as ir
import pytest

import apass
from apass.adapters.onnx import ADAPTER, MAIN, private_copy
from apass.adapters.onnx.outputs import evaluate, random_inputs
from apass.instruments import RemarksInstrument
from examples.measure_candidates import chain, choose_fastest, distance, main, reassociate

pytestmark = pytest.mark.process

THIN = (256, 256, 256, 1)


def first_operands(mod: ir.Model) -> list[str | None]:
    """Return the names of the inputs of each product."""
    return [value.name for node in mod.graph for value in node.inputs if value is not None]


def forget_a(mod: ir.Model) -> ir.Model:
    """Return a fast model with different outputs."""
    graph = private_copy(mod.graph)
    product = next(iter(graph))
    product.replace_input_with(0, product.inputs[1])
    return ADAPTER.replace(mod, {MAIN: graph})


@pytest.mark.slow
def test_large_gains_are_never_missed(backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    status = main(["--models", "4", "--backend", backend])
    written = capfd.readouterr().out
    assert status == 0
    assert written.splitlines()[-1] == "4 models, 0 missed"
    assert "(256, 1, 64, 256)         4,210,688 or       81,920 multiplications: A (B C)" in written


def test_reassociated_product_computes_the_same() -> None:
    before = chain((3, 4, 5, 2))
    after = reassociate(before)
    assert first_operands(before) == ["a", "b", "ab", "c"]
    assert first_operands(after)[:3] == ["b", "c", "a"]
    data = ADAPTER.dumps(before)
    results = [evaluate(model, random_inputs(data)).outputs for model in (data, ADAPTER.dumps(after))]
    assert results[0] is not None
    assert results[1] is not None
    assert distance(results[0], results[1]) < 1e-5
    assert reassociate(after) is after


@pytest.mark.slow
def test_wrong_or_slower_candidate_is_rejected() -> None:
    recorder = RemarksInstrument()

    async def choose() -> list[bool]:
        async with apass.PassContext(instruments=[recorder]):
            wrong = chain((256, 256, 256, 256))
            slow = chain((1, 256, 256, 256))
            alone = chain((2, 2, 2, 2))
            return [
                await choose_fastest(forget_a)(wrong) is wrong,
                await choose_fastest(reassociate)(slow) is slow,
                await choose_fastest(lambda mod: mod)(alone) is alone,
            ]

    assert anyio.run(choose) == [True, True, True]
    assert [remark.message for remark in recorder.remarks] == [
        "no candidate is faster; 1 with different outputs",
        "no candidate is faster; 0 with different outputs",
    ]


def test_outputs_of_other_shapes_have_infinite_distance() -> None:
    assert distance([np.ones(2)], [np.ones(3)]) == float("inf")
    assert distance([np.full(2, 100.0)], [np.array([100.0, 101.0])]) == 0.01


def test_measurement_over_timeout_raises() -> None:
    with pytest.raises(TimeoutError) as caught:
        anyio.run(choose_fastest(reassociate, timeout=0.01), chain(THIN))
    assert caught.value.__notes__ == ["in pass 'ChooseFastest'"]
