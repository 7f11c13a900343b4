"""Workarounds for onnx_ir: lost outputs, wrong sharing, invalid results, errors."""

from pathlib import Path

import anyio
import numpy as np
import onnx_ir as ir
import onnx_ir.passes.common as library
import pytest

import apass
from apass.adapters.onnx import ADAPTER
from apass.adapters.onnx.passes import TABLE, OnnxPass
from apass.adapters.onnx.passes.workarounds import cause_of
from tests.helpers.onnx_models import model_of, op_types, outputs, relu, run, with_functions

Model = ir.Model
NAMES = [f"onnx.{name}" for name in TABLE]


KEPT_IDENTITIES = {
    "an output with a second name": (
        "g (float[1] a) => (float[1] x, float[1] y) { x = Relu(a) y = Identity(x) }",
        ["Relu", "Identity"],
    ),
    "two outputs of one value": (
        "g (float[1] a) => (float[1] x, float[1] y) { t = Relu(a) x = Identity(t) y = Identity(t) }",
        ["Relu", "Identity"],
    ),
    "an output in a chain": (
        "g (float[1] a) => (float[1] x, float[1] y) { t = Relu(a) x = Identity(t) u = Identity(x) y = Identity(u) }",
        ["Relu", "Identity"],
    ),
    "an input as an output": (
        "g (float[1] a) => (float[1] x) { t = Identity(a) x = Identity(t) }",
        ["Identity"],
    ),
}


@pytest.mark.parametrize("case", KEPT_IDENTITIES)
def test_identities_of_outputs_are_kept(case: str) -> None:
    text, expected = KEPT_IDENTITIES[case]
    model = model_of(text)
    result = run("onnx.IdentityElimination", model)
    assert op_types(result) == expected
    assert [value.name for value in result.graph.outputs] == [value.name for value in model.graph.outputs]
    assert outputs(result, np.array([2], np.float32)) == outputs(model, np.array([2], np.float32))


def test_identity_of_outer_value_in_subgraph_is_kept() -> None:
    model = model_of(
        """g (float[1] a, bool c) => (float[1] x) {
            t = Relu(a)
            x = If(c) <then_branch = yes () => (float[1] y) { u = Identity(t) y = Identity(u) },
                       else_branch = no () => (float[1] z) { v = Neg(t) z = Identity(v) }>
        }"""
    )
    result = run("onnx.IdentityElimination", model)
    branches = [op_types(Model(attr.as_graph(), ir_version=10)) for attr in result.graph[1].attributes.values()]
    assert branches == [["Identity"], ["Neg"]]
    ADAPTER.verify(result)
    for condition in (True, False):
        inputs = np.array([2], np.float32), np.array(condition)
        assert outputs(result, *inputs) == outputs(model, *inputs)


PAIRS = {
    "random values": ("p = Bernoulli(a) q = Bernoulli(a)", 2),
    "random values with a seed": ("p = Bernoulli <seed: float = 1.0> (a) q = Bernoulli <seed: float = 1.0> (a)", 2),
    "dropout in training": ("p = Dropout(a, r, t) q = Dropout(a, r, t)", 2),
    "calls": ("p = local.f(a) q = local.f(a)", 2),
    "zeros of different sign": ("p = Selu <alpha: float = 0.0> (a) q = Selu <alpha: float = -0.0> (a)", 2),
    "equal nodes": ("p = Selu <alpha: float = 1.0> (a) q = Selu <alpha: float = 1.0> (a)", 1),
}


@pytest.mark.parametrize("case", PAIRS)
def test_nodes_that_may_differ_are_not_shared(case: str) -> None:
    nodes, count = PAIRS[case]
    model = model_of(f"g (float[1] a, float r, bool t) => (float[1] x) {{ {nodes} x = Add(p, q) }}", "f (p) => (p) {}")
    assert len(op_types(run("onnx.CommonSubexpressionElimination", model))) == count + 1


def test_node_without_optional_output_is_not_shared() -> None:
    model = model_of(
        "g (float[1, 1, 2] a) => (float[1, 1, 2] x, int64[1, 1, 2] i) "
        "{ x, j = MaxPool <kernel_shape = [1]> (a) y, i = MaxPool <kernel_shape = [1]> (a) }"
    )
    model.graph[0].outputs[1].name = ""
    result = run("onnx.CommonSubexpressionElimination", model)
    assert op_types(result) == ["MaxPool", "MaxPool"]


def test_inlining_keeps_names_of_inputs_and_outputs() -> None:
    model = model_of(
        "g (float[2] a) => (float[2] x, float[2] y, float[2] z) { x, y, z = local.f(a) }",
        "f (p) => (p, q, q) { q = Neg(p) }",
    )
    result = run("onnx.Inline", model)
    assert ([value.name for value in result.graph.inputs], len(result.functions)) == (["a"], 0)
    assert outputs(result, np.ones(2, np.float32)) == outputs(model, np.ones(2, np.float32))


def test_default_attributes_use_operator_set_of_function() -> None:
    model = model_of("g (float[2] a) => (float[2] x) { x = local.f(a) }", "f (p) => (q) { q = Softmax(p) }")
    model.functions["local", "f", ""].opset_imports[""] = 11
    result = run("onnx.AddDefaultAttributes", model)
    # Softmax has axis 1 by default before operator set 13, and -1 since then.
    assert result.functions["local", "f", ""][0].attributes["axis"].value == 1


def test_inputs_of_subgraphs_are_unchanged() -> None:
    model = model_of(
        """g (float[1] a, bool c) => (float[1] x) <float[1] w = {1}> {
            x = If(c) <then_branch = yes () => (float[1] y) <float[1] e = {5}> { y = Add(a, e) },
                       else_branch = no () => (float[1] z) { z = Add(a, w) }>
        }"""
    )
    result = run("onnx.AddInitializersToInputs", model)
    assert [value.name for value in result.graph.inputs] == ["a", "c", "w"]
    assert [len(attr.as_graph().inputs) for attr in result.graph[0].attributes.values()] == [0, 0]


def test_unreported_change_is_detected() -> None:
    model = model_of("g (float[4] a) => (float[4] x) { x, mask = Dropout(a) }")
    assert not library.RemoveUnusedNodesPass()(ADAPTER.isolate(model, ["main"])).modified
    result = run("onnx.RemoveUnusedNodes", model)
    assert [len(version.graph[0].outputs) for version in (model, result)] == [2, 1]


def test_clearing_metadata_keeps_the_skip_mark() -> None:
    model = with_functions()
    for _, function in ADAPTER.functions(model):
        function.metadata_props.update({"SkipOptimization": "1", "other": "text"})
    result = run("onnx.ClearMetadataAndDocString", model)
    metadata = [dict(function.metadata_props) for _, function in ADAPTER.functions(result)]
    assert metadata == [{"SkipOptimization": "1"}] * 3


INVALID = {
    "onnx.LiftConstantsToInitializers": "fails on models of IR version 3",
    "onnx.RemoveInitializersFromInputs": "fails on models of IR version 3",
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_result_is_a_verify_error(name: str) -> None:
    model = model_of("g (float[1] a) => (float[1] x) { c = Constant <value: tensor = float[1] {3}> () x = Add(a, c) }")
    model.ir_version = 3
    value = ir.Value(name="w", const_value=ir.tensor([1.0], name="w"), shape=ir.Shape([1]))
    value.type = ir.TensorType(ir.DataType.FLOAT)
    model.graph.inputs.append(value)
    model.graph.register_initializer(value)
    options = {"size_limit": 1} if name == "onnx.LiftConstantsToInitializers" else {}
    with pytest.raises(
        apass.errors.VerifyError, match=rf"returned an invalid model for a valid one \(.*{INVALID[name]}"
    ):
        run(name, model, **options)


class Renames(ir.passes.InPlacePass):
    """Renames an input, which no pass may do."""

    def call(self, model: Model) -> ir.passes.PassResult:
        model.graph.inputs[0].name = "other"
        return ir.passes.PassResult(model, modified=True)


class Fails(ir.passes.InPlacePass):
    """Fails in its precondition; onnx_ir wraps the error."""

    def requires(self, model: Model) -> None:
        try:
            raise LookupError("the first cause")
        except LookupError as error:
            raise KeyError("what went wrong") from error

    def call(self, model: Model) -> ir.passes.PassResult:
        raise AssertionError


def pass_of(target: type[ir.passes.PassBase]) -> OnnxPass:
    """Return the apass pass for a class of onnx_ir."""
    return OnnxPass(target, apass.PassInfo(0, f"onnx.{target.__name__}"), {})


def test_changed_interface_is_a_verify_error() -> None:
    message = r"Renames of onnx_ir changed the inputs and outputs of the model from \['a'\] -> \['x'\] to \['other'\]"
    with pytest.raises(apass.errors.VerifyError, match=message):
        apass.run(pass_of(Renames), relu())


def test_pass_error_names_pass_model_and_cause() -> None:
    message = "^Fails of onnx_ir failed on model 'm': KeyError: 'what went wrong'"
    with pytest.raises(apass.errors.AdapterError, match=message) as caught:
        anyio.run(apass.optimize_all, {"m": relu()}, pass_of(Fails))
    assert isinstance(caught.value.__cause__, KeyError)
    assert isinstance(caught.value.__cause__.__cause__, LookupError)


def test_wrapper_of_cloner_errors_is_removed() -> None:
    graph = ir.Graph([], [ir.Value(name="nowhere")], nodes=[], name="g")
    with pytest.raises(RuntimeError, match="In clone_graph") as caught:
        graph.clone()
    assert type(cause_of(caught.value)) is KeyError


def test_inlining_accepts_calls_with_more_inputs() -> None:
    model = model_of("g (float[1] a) => (float[1] x) { x = local.f(a, a) }", "f (p, r) => (q) { q = Add(p, r) }")
    assert op_types(run("onnx.Inline", model)) == ["Add"]


def test_inlining_reports_mismatched_operator_sets() -> None:
    model = with_functions()
    model.functions["local", "f", ""].opset_imports[""] = 11
    with pytest.raises(apass.errors.AdapterError, match="ValueError: Opset mismatch when inlining function 'local::f'"):
        run("onnx.Inline", model)


def test_external_data_is_found_in_any_folder(tmp_path: Path) -> None:
    np.array([2, 2], np.int64).tofile(tmp_path / "weights.bin")
    tensor = ir.ExternalTensor(
        "weights.bin", 0, 16, ir.DataType.INT64, shape=ir.Shape([2]), name="s", base_dir=tmp_path
    )
    model = model_of(
        """g (float[4] a) => (float[M, N] y)
        <int64[2] s = {0, 0}> { k = Constant <value = int64[2] {0, 0}> () t = Reshape(a, s) y = Reshape(t, k) }"""
    )
    model.graph.initializers["s"].const_value = tensor
    model.graph[0].attributes["value"] = ir.AttrTensor("value", tensor)
    assert run("onnx.Checker", model) is model
    result = run("onnx.ShapeInference", model)
    assert [str(node.outputs[0].shape) for node in result.graph] == ["[2]", "[2,2]", "[2,2]"]
    assert model.graph.initializers["s"].const_value is tensor


def test_unused_initializers_of_subgraphs_are_removed() -> None:
    model = model_of(
        """g (bool c, float[2] x) => (float[2] y) {
            y = If (c) <
                then_branch = t () => (float[2] a) <float[2] w = {1, 2}, float[2] used = {3, 4}> { a = Add(x, used) },
                else_branch = e () => (float[2] b) { b = Neg(x) }
            >
        }"""
    )
    result = run("onnx.RemoveUnusedNodes", model)
    branch = result.graph[0].attributes["then_branch"].as_graph()
    assert list(branch.initializers) == ["used"]
    assert run("onnx.RemoveUnusedNodes", result) is result
