"""The space of pipelines for TVM. Each pipeline keeps outputs."""

import pytest

import apass
from apass.adapters.tvm import ADAPTER, IRModule, from_script
from apass.adapters.tvm.outputs import compare_outputs
from apass.adapters.tvm.plugin import PLUGIN
from apass.adapters.tvm.spaces import FUSION, passes
from apass.search import search
from tests.helpers.amounts import some
from tests.helpers.rows import row
from tests.helpers.spaces import alternatives, random_pipelines
from tests.helpers.tvm_modules import HEAD, shared

pytestmark = [pytest.mark.process, pytest.mark.anyio, pytest.mark.slow]


def network() -> IRModule:
    """Return a module with products, a constant, equal operators, and a call."""
    return from_script(f"""{HEAD}
@I.ir_module
class Module:
    @R.function(private=True)
    def helper(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.add(a, R.const(1, "float32"))
            R.output(b)
        return b

    @R.function
    def main(
        x: R.Tensor((4, 8), "float32"), w: R.Tensor((16, 8), "float32"), v: R.Tensor((8, 16), "float32")
    ) -> R.Tensor((4, 8), "float32"):
        cls = Module
        with R.dataflow():
            t = R.permute_dims(w, (1, 0))
            p = R.matmul(x, t)
            q = R.matmul(x, v)
            r = R.reshape(R.add(p, q), (4, 16))
            c = R.add(R.const(1, "float32"), R.const(2, "float32"))
            m = R.multiply(r, c)
            n = R.multiply(r, c)
            s = R.strided_slice(R.add(m, n), axes=[1], begin=[0], end=[8])
            h: R.Tensor((4, 8), "float32") = cls.helper(R.nn.softmax(s, axis=-1))
            R.output(h)
        return h
""")


async def check(pipeline: str) -> None:
    result = await apass.parse_pipeline(pipeline)(network())
    ADAPTER.verify(result)
    comparison = await compare_outputs(network(), result)
    assert comparison.changed is False, comparison.text


async def test_pipelines_keep_outputs() -> None:
    names = alternatives(passes())
    fused = FUSION.replace("=?0..4", "=4")
    for pipeline in [*names, *(f"{fused},{name}" for name in some(names)), *some(random_pipelines(passes(), 30))]:
        with row(pipeline):
            await check(pipeline)


async def test_search_finds_a_smaller_module() -> None:
    assert PLUGIN.size is not None
    size = PLUGIN.size
    result = await search([shared()], passes(), lambda candidate, _: size(candidate.module), budget=20)
    assert result.failed == 0
    assert result.modules[0].values["value"] < size(shared())
