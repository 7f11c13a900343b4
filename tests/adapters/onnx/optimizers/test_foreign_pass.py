"""Passes of other optimizers: errors, limits, crashes, kept metadata and options."""

import os
import signal
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import onnx_ir as ir
import psutil
import pytest

import apass
from apass.adapters.onnx import ADAPTER, MAIN
from apass.adapters.onnx.optimizers.foreign_pass import LIMITS, ForeignPass
from apass.adapters.onnx.optimizers.isolation import Optimizer, is_same_computation, restore
from apass.core.pass_info import PassInfo
from apass.passes.registry import pass_options
from apass.pipelines.parser import parse_pipeline
from tests.helpers.onnx_models import model_of, op_types, proto_of, relu, rich_proto
from tests.helpers.peers import OPTIMIZERS, traps
from tests.helpers.rows import row

pytestmark = [pytest.mark.process]


def fail(model: ir.Model) -> ir.Model:
    """Raise an error of a library."""
    raise AssertionError("no\nsuch thing")


def crash(model: ir.Model) -> ir.Model:
    """End the process."""
    os.kill(os.getpid(), signal.SIGKILL)
    return model


def sleep(model: ir.Model, started: str) -> ir.Model:
    """Create a file, and do not return in time."""
    Path(started).touch()
    time.sleep(1000)
    return model


def allocate(model: ir.Model) -> ir.Model:
    """Allocate eight gigabytes."""
    np.empty(2**30)
    return model


def rename_output(model: ir.Model) -> ir.Model:
    """Change the interface."""
    model.graph.outputs[0].name = "other"
    return model


def drop_input(model: ir.Model) -> ir.Model:
    """Use a value that nothing defines."""
    node = next(iter(model.graph))
    node.replace_input_with(0, ir.Value(name="nothing"))
    return model


def as_double(model: ir.Model) -> ir.Model:
    """Return a model with a wrong type inside."""
    node = next(iter(model.graph))
    node.outputs[0].type = ir.TensorType(ir.DataType.DOUBLE)
    cast = ir.node("Cast", [model.graph.inputs[0]], {"to": ir.DataType.DOUBLE})
    model.graph.insert_before(node, cast)
    node.replace_input_with(0, cast.outputs[0])
    return model


def soften(model: ir.Model) -> ir.Model:
    """Use an operator that onnxruntime does not have for double."""
    next(iter(model.graph)).op_type = "Softplus"
    return model


def hide(model: ir.Model) -> ir.Model:
    """Give an initializer of a branch the name of an outer value."""
    branch = next(node for node in model.graph if node.op_type == "If").attributes["then_branch"].as_graph()
    branch.initializers["w"].name = "n"
    return model


def foreign(function: str, options: Mapping[str, Any] | None = None) -> ForeignPass:
    """Return a pass that runs a function of this module."""
    return ForeignPass(Optimizer("demo", "1", __name__, function), PassInfo(0, f"demo.{function}"), options or {})


FAILURES: dict[str, tuple[type[Exception], str]] = {
    "fail": (apass.errors.AdapterError, r"^demo failed on model 'without name': AssertionError: no such thing"),
    "rename_output": (apass.errors.VerifyError, "demo changed the inputs and outputs"),
    "drop_input": (apass.errors.VerifyError, "^demo (returned an invalid model for a valid one|changed)"),
    "as_double": (apass.errors.VerifyError, "^demo (returned an invalid model for a valid one|changed)"),
    "crash": (apass.errors.AdapterError, r"^demo crashed on model .*; the model is unchanged"),
}
"""Functions of this module, with the error of a pass that calls them."""


@pytest.mark.slow
def test_failures_of_the_library_become_errors() -> None:
    async def main() -> None:
        for function, (error, message) in FAILURES.items():
            with row(function), pytest.raises(error, match=message):
                await foreign(function)(relu())

    anyio.run(main)


@pytest.mark.slow
def test_result_that_cannot_be_read_is_invalid() -> None:
    mod = model_of("""g (bool c, float[1] x) => (float[1] y) {
        n = Abs(x)
        y = If (c) <then_branch = t () => (float[1] a) <float[1] w = {3}> { a = Mul(x, w) },
                    else_branch = e () => (float[1] b) { b = Neg(x) }>
    }""")
    with pytest.raises(apass.errors.VerifyError, match=r"^the result of demo: .* hides the value 'n' of graph 'g'"):
        apass.run(foreign("hide"), mod)


@pytest.mark.slow
def test_result_that_onnxruntime_rejects_is_invalid() -> None:
    async def main() -> None:
        message = r"^demo returned an invalid model for a valid one: onnxruntime does not load it: .*Softplus"
        with pytest.raises(apass.errors.VerifyError, match=message):
            await foreign("soften")(model_of("g (double[2] x) => (double[2] y) { y = Relu(x) }"))
        # This input is not loaded either, so that the optimizer is not the cause.
        mod = model_of("g (double[2] x) => (double[2] y) { a = Relu(x) y = Mish(a) }")
        assert op_types(await foreign("soften")(mod)) == ["Softplus", "Mish"]

    anyio.run(main)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
def test_memory_limit_is_enforced() -> None:
    async def main() -> None:
        with pytest.raises(apass.errors.AdapterError, match=r"demo needs more than 1,0.* raise the option max_memory"):
            await foreign("allocate")(relu())
        assert await foreign("allocate", {"max_memory": 2**34})(model := relu()) is model

    anyio.run(main)


@pytest.mark.slow
def test_cancellation_kills_the_process(backend: str, tmp_path: Path) -> None:
    before = {process.pid for process in psutil.Process().children()}
    started = anyio.Path(tmp_path / "started")

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(foreign("sleep", {"started": str(started)}), relu())
            while not await started.exists():  # noqa: ASYNC110  another process creates it
                await anyio.sleep(0.02)
            group.cancel_scope.cancel()
        assert {process.pid for process in psutil.Process().children()} <= before

    anyio.run(main, backend=backend)


def test_other_module_raises_adapter_error() -> None:
    with pytest.raises(apass.errors.AdapterError, match=r"needs an onnx_ir.Model, got .*ModelProto"):
        apass.run(apass.get_pass("ort.Basic"), proto_of("g (float[4] a) => (float[4] x) { x = Relu(a) }"))


@pytest.mark.slow
def test_unchanged_model_is_the_same_object() -> None:
    async def main() -> None:
        model = relu()
        for name in OPTIMIZERS:
            assert await apass.get_pass(name)(model) is model, name

    anyio.run(main)


@pytest.mark.slow
def test_metadata_and_marks_are_kept() -> None:
    rich, small = ir.from_proto(rich_proto()), traps()["floats of a Constant"]
    small.producer_name = small.doc_string = "text"
    for model in (rich, small):
        model.metadata_props["k"] = model.graph.inputs[0].metadata_props["k"] = "v"
        model.graph.metadata_props["SkipOptimization"] = "1"

    async def main() -> None:
        for name, model in (("onnxscript.Optimize", rich), ("ort.Basic", rich), ("onnxslim.Slim", small)):
            result = await apass.get_pass(name)(model)
            assert result is not model, name
            assert ADAPTER.skips(result.graph), name
            assert result.metadata_props == model.metadata_props, name
            assert result.graph.metadata_props == model.graph.metadata_props, name
            assert (result.producer_name, result.doc_string) == ("text", "text"), name
            assert [str(value.type) for value in result.graph.inputs] == [
                str(value.type) for value in model.graph.inputs
            ]
            assert result.graph.inputs[0].metadata_props == model.graph.inputs[0].metadata_props, name

    anyio.run(main)


def test_exponential_calls_are_rejected() -> None:
    functions = ["f0 (p) => (q) { q = Relu(p) }"]
    functions += [f"f{i} (p) => (q) {{ r = local.f{i - 1}(p) q = local.f{i - 1}(r) }}" for i in range(1, 40)]
    model = model_of("g (float[4] a) => (float[4] x) { x = local.f39(a) }", *functions)

    async def main() -> None:
        for name in OPTIMIZERS:
            with pytest.raises(apass.errors.AdapterError, match=r"expand to .* raise the option max_nodes"):
                await apass.get_pass(name)(model)

    anyio.run(main)


HOSTILE = {
    "shape": "g (float[4] a) => (float[N] x) <int64[1] n = {40000000000}, float[1] v = {1}> { x = Expand(v, n) }",
    "range": """g (float[4] a) => (int64[N] x) <int64 l = {0}, int64 m = {40000000000}, int64 s = {1}>
        { x = Range(l, m, s) }""",
    "tile": """g (float[4] a) => (float[N] x) <int64[1] n = {40000000000}, float[1] v = {1}>
        { y = Tile(v, n) x = Relu(y) }""",
    "sequence": """g (float[4000000000] a) => (float[N] x) <int64 s = {1}, int64 i = {1}>
        { q = SplitToSequence<axis = 0>(a, s) x = SequenceAt(q, i) }""",
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
def test_hostile_sizes_stay_within_the_limit() -> None:
    async def main() -> None:
        for name, (what, text) in product(OPTIMIZERS, HOSTILE.items()):
            with row((name, what)), anyio.fail_after(60):
                try:
                    # An optimizer that fills the memory piece by piece takes three seconds for the default limit.
                    result = await apass.get_pass(name, max_memory=2**28)(model_of(text))
                except apass.errors.AdapterError:
                    continue
                assert len(ADAPTER.dumps(result)) < 2**20

    anyio.run(main)


def test_options_are_typed_and_read_back() -> None:
    text = "onnxscript.Optimize{num_iterations=3,inline=false},onnxslim.Slim{skip_fusion_patterns=[FusionGelu]}"
    pipeline = parse_pipeline(text)
    assert parse_pipeline(str(pipeline)) == pipeline
    assert pass_options("onnxscript.Optimize").keys() > {"num_iterations", "output_size_limit", *LIMITS}
    for name in OPTIMIZERS:
        assert pass_options(name).keys() >= LIMITS.keys()
    with pytest.raises(apass.errors.PassDefinitionError, match=r"option 'num_iterations' .* expected int, got 'many'"):
        apass.get_pass("onnxscript.Optimize", num_iterations="many")


@pytest.mark.slow
def test_only_named_rewrite_rules_are_applied() -> None:
    async def main() -> None:
        model = model_of("g (float[2, 3] a) => (float[2, 3] x) { x = Transpose<perm = [0, 1]>(a) }")
        result = await apass.get_pass("onnxscript.Rewrite", rules=["no_op_transpose_rule"])(model)
        assert op_types(result) == ["Identity"]
        assert await apass.get_pass("onnxscript.Rewrite", rules=["no_op_cast_rule"])(model) is model
        with pytest.raises(apass.errors.AdapterError, match="no rewrite rule 'cast_cast'"):
            await apass.get_pass("onnxscript.Rewrite", rules=["cast_cast"])(model)

    anyio.run(main)


def test_public_rule_sets_have_passes() -> None:
    common = import_module("onnxscript.rewriter.rules.common")
    registered = {
        str(rule)
        for rules in import_module("apass.adapters.onnx.optimizers.onnxscript").rule_sets().values()
        for rule in rules
    }
    members = (getattr(common, name) for name in common.__all__)
    rules = {str(member) for member in members if type(member).__name__ == "RewriteRule"}
    assert len(rules) > 30
    assert rules <= registered


def test_same_computation_ignores_names_and_types() -> None:
    model, other, third = relu(), relu(), model_of("g (float[N, 4] a) => (float[N, 4] x) { x = Neg(a) }")
    next(iter(other.graph)).name = "node"
    other.graph.doc_string = "text"
    other.opset_imports["unused"] = 1
    assert is_same_computation(model, other)
    assert not is_same_computation(model, third)


def test_restore_adds_removed_inputs_and_defaults() -> None:
    before = model_of("g (float[4] a, float[4] b) => (float[4] x) <float[4] b = {1, 2, 3, 4}> { x = Relu(a) }")
    after = model_of("g (float[4] a) => (float[4] x) { x = Relu(a) }")
    restore(before, after)
    assert [value.name for value in after.graph.inputs] == ["a", "b"]
    assert after.graph.initializers["b"].const_value is not None
    assert dict(ADAPTER.functions(after))[MAIN] is after.graph
    ADAPTER.verify(after)


def test_restore_adds_default_attributes() -> None:
    text = "g (float[2, 3] a) => (float[2, 3] x) { x = Softmax<axis = -1>(a) }"
    before, after = model_of(text), model_of(text.replace("<axis = -1>", ""))
    restore(before, after)
    assert next(iter(after.graph)).attributes["axis"].value == -1
