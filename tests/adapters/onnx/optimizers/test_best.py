"""`onnx.Best`: the best verified result."""

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

import apass
from apass.adapters.onnx import ADAPTER, private_copy
from apass.adapters.onnx.costs import is_slower
from apass.adapters.onnx.optimizers.best import Best, Objective
from apass.adapters.onnx.storage import with_parts
from apass.errors import AdapterError
from tests.helpers.onnx_models import model_of, onnxruntime_session, op_types

pytestmark = [pytest.mark.anyio, pytest.mark.process]

TEXT = "g (float[4] x) => (float[4] y) { a = Neg(x) b = Neg(a) c = Identity(b) d = Abs(c) y = Abs(d) }"
"""Five nodes, of which one is needed."""


def alternative(name: str, change: Callable[[ir.Graph], object]) -> apass.Pass[ir.Model]:
    """Return a pass that changes a copy of the main graph."""

    def run(mod: ir.Model, ctx: apass.PassContext) -> ir.Model:
        graph = private_copy(mod.graph)
        change(graph)
        return with_parts(mod, graph, mod.functions.values())

    return apass.module_pass(run, opt_level=0, name=name)


def becomes(text: str) -> Callable[[ir.Graph], object]:
    """Return a function that replaces the nodes of a graph."""

    def change(graph: ir.Graph) -> None:
        other = private_copy(model_of(text).graph)
        nodes = list(other)
        outputs = list(other.outputs)
        other.outputs.clear()
        other.remove(nodes)
        for value in other.inputs:
            value.replace_all_uses_with(graph.inputs[0])
        graph.outputs.clear()
        graph.remove(list(graph), safe=True)
        graph.extend(nodes)
        graph.outputs.extend(outputs)

    return change


HALF = "g (float[4] x) => (float[4] y) { c = Identity(x) y = Abs(c) }"
ABS = "g (float[4] x) => (float[4] y) { y = Abs(x) }"
NEG = "g (float[4] x) => (float[4] y) { y = Neg(x) }"


async def best(*passes: apass.Pass[ir.Model], objective: Objective = "nodes") -> tuple[list[str], list[str]]:
    """Return the operators of the result, and the warnings."""
    async with apass.PassContext(opt_level=3) as ctx:
        result = await Best(passes, objective)(model_of(TEXT))
    return op_types(result), [str(item.message) for item in ctx.diag_ctx.diagnostics]


async def test_smallest_verified_result_is_taken() -> None:
    half, full = alternative("Half", becomes(HALF)), alternative("Full", becomes(ABS))
    assert await best(half, full) == (["Abs"], [])
    assert await best(half) == (["Identity", "Abs"], [])


async def test_changed_outputs_are_rejected_and_named() -> None:
    half, wrong = alternative("Half", becomes(HALF)), alternative("Wrong", becomes(NEG))
    operators, warnings = await best(half, wrong)
    assert operators == ["Identity", "Abs"]
    assert warnings[0].startswith("pass 'onnx.Best' rejects Wrong: outputs changed: output 'y' differs by up to ")


async def test_failures_and_time_limits_are_left_out() -> None:
    def fail(graph: ir.Graph) -> None:
        raise ValueError("no reason")

    half, failing = alternative("Half", becomes(HALF)), alternative("Failing", fail)
    assert await best(failing, half) == (["Identity", "Abs"], [])


async def test_larger_files_are_rejected() -> None:
    def grow(graph: ir.Graph) -> None:
        becomes(ABS)(graph)
        graph.register_initializer(ir.Value(name="w", const_value=ir.tensor(np.ones(999, np.float32), name="w")))

    assert (await best(alternative("Grow", grow)))[0] == ["Neg", "Neg", "Identity", "Abs", "Abs"]


async def test_without_a_verified_result_the_model_is_kept() -> None:
    operators, warnings = await best(alternative("Wrong", becomes(NEG)))
    assert operators == ["Neg", "Neg", "Identity", "Abs", "Abs"]
    assert warnings[-1] == "pass 'onnx.Best': none of 1 results is better and verified"


async def test_sequences_of_two_optimizers_are_tried() -> None:
    def drop_identity(graph: ir.Graph) -> None:
        for node in list(graph):
            source = node.inputs[0]
            if node.op_type == "Identity" and source is not None:
                node.outputs[0].replace_all_uses_with(source)
                graph.remove(node, safe=True)

    half, rest = alternative("Half", becomes(HALF)), alternative("Rest", drop_identity)
    assert (await best(half, rest))[0] == ["Abs"]


async def test_slower_model_is_recognized() -> None:
    chain = " ".join(f"v{index + 1} = Tanh(v{index})" for index in range(200))
    short, long = (
        model_of(f"g (float[N, 256] v0) => (float[N, 256] y) {{ {nodes} y = Abs({last}) }}")
        for nodes, last in (("", "v0"), (chain, "v200"))
    )
    assert await is_slower(short, long)
    assert not await is_slower(long, short)
    assert not await is_slower(short, short)
    other = model_of("g (uint16[4] a) => (uint16[4] y) { y = Identity(a) }")
    without_kernel = model_of("g (uint16[4] a) => (uint16[4] y) { y = Max(a) }")
    assert await is_slower(other, without_kernel)
    with pytest.raises(AdapterError, match="onnxruntime cannot run the model: NotImplemented"):
        await is_slower(without_kernel, other)


@pytest.mark.slow
async def test_installed_optimizers_take_part() -> None:
    pytest.importorskip("onnxslim")
    model = model_of(TEXT)
    async with apass.PassContext() as ctx:
        pass_ = apass.get_pass("onnx.Best", objective="bytes")
        result = await pass_(model)
    assert "onnxslim.Slim" in [branch[0].info.name for branch in pass_.branches()]
    assert op_types(result) == ["Abs"]
    array = np.array([-1, 2, -3, 4], np.float32)
    for version in (model, result):
        assert onnxruntime_session(ADAPTER.dumps(version)).run(None, {"x": array})[0].tolist() == [1, 2, 3, 4]
    assert not ctx.diag_ctx.diagnostics
