"""The spaces of pipelines for ONNX models. Each pipeline keeps outputs."""

from collections.abc import Callable
from importlib.util import find_spec

import pytest

import apass
from apass.adapters.onnx import ADAPTER, OnnxModel, count_nodes
from apass.adapters.onnx.optimizers.best import PEERS
from apass.adapters.onnx.outputs import compare_outputs
from apass.adapters.onnx.passes import TABLE
from apass.adapters.onnx.spaces import CHOSEN, LEFT_OUT, passes, tools
from apass.search import search
from tests.helpers.amounts import some
from tests.helpers.onnx_models import model_of
from tests.helpers.rows import row
from tests.helpers.spaces import alternatives, random_pipelines

pytestmark = [pytest.mark.process, pytest.mark.anyio]

LIBRARIES = {"ort": "onnxruntime"}
"""The libraries of prefixes that have another name."""


def model() -> OnnxModel:
    """Return a model with equal nodes, constants, and a scale after a Gemm."""
    return model_of("""
        g (float[2, 3] a) => (float[2, 4] x)
        <float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[4] b = {1, 2, 3, 4}, float[4] s = {2, 2, 2, 2}>
        {
            i = Identity(a)
            p = Gemm(i, w, b)
            q = Gemm(a, w, b)
            c = Constant<value_floats = [3.0, 4.0, 5.0, 6.0]>()
            d = Add(s, c)
            m = Mul(p, d)
            n = Mul(q, d)
            x = Add(m, n)
        }
    """)


async def check(pipeline: str) -> None:
    async with apass.PassContext(opt_level=3):
        result = await apass.parse_pipeline(pipeline)(model())
    ADAPTER.verify(result)
    verdict = await compare_outputs(model(), result)
    assert verdict.comparison.changed is False, verdict.comparison.text


def test_each_pass_is_chosen_or_left_out() -> None:
    assert sorted([*CHOSEN, *LEFT_OUT]) == sorted(TABLE)


def test_tools_are_the_installed_ones() -> None:
    prefixes = {name: name.partition(".")[0] for name in PEERS}
    installed = [name for name, prefix in prefixes.items() if find_spec(LIBRARIES.get(prefix, prefix))]
    assert [text.partition("{")[0] for text in alternatives(tools())] == ["onnx.Default", *installed]


@pytest.mark.parametrize("space", [passes, tools], ids=["passes", "tools"])
async def test_pipelines_keep_outputs(space: Callable[[], str]) -> None:
    for pipeline in [*alternatives(space()), *some(random_pipelines(space(), 30))]:
        with row(pipeline):
            await check(pipeline)


@pytest.mark.parametrize("space", [passes, tools], ids=["passes", "tools"])
async def test_search_finds_a_smaller_model(space: Callable[[], str]) -> None:
    result = await search(
        [model()],
        space(),
        lambda candidate, _: count_nodes(candidate.module),
        budget=10,
        context=apass.PassContext(opt_level=3),
    )
    assert result.failed == 0
    assert result.modules[0].values["value"] < count_nodes(model())
