"""What onnx_ir's passes would get wrong of their own: outputs lost, twins taken for one, invalid results, errors."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnx_ir.passes.common as library
import pytest

import apass
from apass.adapters.onnx import ADAPTER
from apass.adapters.onnx.passes import TABLE, OnnxPass
from apass.adapters.onnx.passes.workarounds import cause_of
from tests.adapters.onnx.models import model_of, op_types, outputs, relu, run, with_functions

Model = ir.Model
NAMES = [f"onnx.{name}" for name in TABLE]


KEPT_IDENTITIES = {
    "an output under a second name": (
        "g (float[1] a) => (float[1] x, float[1] y) { x = Relu(a) y = Identity(x) }",
        ["Relu", "Identity"],
    ),
    "two names for what is none": (
        "g (float[1] a) => (float[1] x, float[1] y) { t = Relu(a) x = Identity(t) y = Identity(t) }",
        ["Relu", "Identity"],
    ),
    "a name further down a chain": (
        "g (float[1] a) => (float[1] x, float[1] y) { t = Relu(a) x = Identity(t) u = Identity(x) y = Identity(u) }",
        ["Relu", "Identity"],
    ),
    "an input as an output": (
        "g (float[1] a) => (float[1] x) { t = Identity(a) x = Identity(t) }",
        ["Identity"],
    ),
}


@pytest.mark.parametrize("case", KEPT_IDENTITIES)
def test_identities_that_outputs_need_are_kept(case: str) -> None:
    text, kept = KEPT_IDENTITIES[case]
    model = model_of(text)
    made = run("onnx.IdentityElimination", model)
    assert op_types(made) == kept
    assert [value.name for value in made.graph.outputs] == [value.name for value in model.graph.outputs]
    assert outputs(made, np.array([2], np.float32)) == outputs(model, np.array([2], np.float32))


def test_an_identity_that_hands_an_outer_value_out_of_a_subgraph_is_kept() -> None:
    model = model_of(
        """g (float[1] a, bool c) => (float[1] x) {
            t = Relu(a)
            x = If(c) <then_branch = yes () => (float[1] y) { u = Identity(t) y = Identity(u) },
                       else_branch = no () => (float[1] z) { v = Neg(t) z = Identity(v) }>
        }"""
    )
    made = run("onnx.IdentityElimination", model)
    branches = [op_types(Model(attr.as_graph(), ir_version=10)) for attr in made.graph[1].attributes.values()]
    assert branches == [["Identity"], ["Neg"]]
    ADAPTER.verify(made)
    for condition in (True, False):
        given_inputs = np.array([2], np.float32), np.array(condition)
        assert outputs(made, *given_inputs) == outputs(model, *given_inputs)


TWINS = {
    "random draws": ("p = Bernoulli(a) q = Bernoulli(a)", 2),
    "random draws with a seed": ("p = Bernoulli <seed: float = 1.0> (a) q = Bernoulli <seed: float = 1.0> (a)", 2),
    "dropout in training": ("p = Dropout(a, r, t) q = Dropout(a, r, t)", 2),
    "calls": ("p = local.f(a) q = local.f(a)", 2),
    "zeros of another sign": ("p = Selu <alpha: float = 0.0> (a) q = Selu <alpha: float = -0.0> (a)", 2),
    "true twins": ("p = Selu <alpha: float = 1.0> (a) q = Selu <alpha: float = 1.0> (a)", 1),
}


@pytest.mark.parametrize("case", TWINS)
def test_twins_that_may_differ_are_not_shared(case: str) -> None:
    nodes, count = TWINS[case]
    model = model_of(f"g (float[1] a, float r, bool t) => (float[1] x) {{ {nodes} x = Add(p, q) }}", "f (p) => (p) {}")
    assert len(op_types(run("onnx.CommonSubexpressionElimination", model))) == count + 1


def test_a_twin_without_an_output_does_not_stand_in_for_one_that_has_it() -> None:
    model = model_of(
        "g (float[1, 1, 2] a) => (float[1, 1, 2] x, int64[1, 1, 2] i) "
        "{ x, j = MaxPool <kernel_shape = [1]> (a) y, i = MaxPool <kernel_shape = [1]> (a) }"
    )
    model.graph[0].outputs[1].name = ""
    made = run("onnx.CommonSubexpressionElimination", model)
    assert op_types(made) == ["MaxPool", "MaxPool"]


def test_a_function_that_passes_its_input_on_is_inlined_under_the_same_names() -> None:
    model = model_of(
        "g (float[2] a) => (float[2] x, float[2] y, float[2] z) { x, y, z = local.f(a) }",
        "f (p) => (p, q, q) { q = Neg(p) }",
    )
    made = run("onnx.Inline", model)
    assert ([value.name for value in made.graph.inputs], len(made.functions)) == (["a"], 0)
    assert outputs(made, np.ones(2, np.float32)) == outputs(model, np.ones(2, np.float32))


def test_defaults_of_a_function_are_those_of_its_own_operator_set() -> None:
    model = model_of("g (float[2] a) => (float[2] x) { x = local.f(a) }", "f (p) => (q) { q = Softmax(p) }")
    model.functions["local", "f", ""].opset_imports[""] = 11
    made = run("onnx.AddDefaultAttributes", model)
    axes = [one.functions["local", "f", ""][0].attributes["axis"].value for one in (made,)]
    assert axes == [1]


def test_inputs_of_subgraphs_stay_as_the_operator_wants_them() -> None:
    model = model_of(
        """g (float[1] a, bool c) => (float[1] x) <float[1] w = {1}> {
            x = If(c) <then_branch = yes () => (float[1] y) <float[1] e = {5}> { y = Add(a, e) },
                       else_branch = no () => (float[1] z) { z = Add(a, w) }>
        }"""
    )
    made = run("onnx.AddInitializersToInputs", model)
    assert [value.name for value in made.graph.inputs] == ["a", "c", "w"]
    assert [len(attr.as_graph().inputs) for attr in made.graph[0].attributes.values()] == [0, 0]


def test_a_change_that_onnx_ir_does_not_claim_is_found_out() -> None:
    model = model_of("g (float[4] a) => (float[4] x) { x, mask = Dropout(a) }")
    assert not library.RemoveUnusedNodesPass()(ADAPTER.isolate(model, ["main"])).modified
    made = run("onnx.RemoveUnusedNodes", model)
    assert [len(one.graph[0].outputs) for one in (model, made)] == [2, 1]


def test_the_skip_mark_outlives_the_clearing_of_metadata() -> None:
    model = with_functions()
    for _, function in ADAPTER.functions(model):
        function.metadata_props.update({"SkipOptimization": "1", "other": "text"})
    made = run("onnx.ClearMetadataAndDocString", model)
    found = [dict(function.metadata_props) for _, function in ADAPTER.functions(made)]
    assert found == [{"SkipOptimization": "1"}] * 3


INVALID = {
    "onnx.LiftConstantsToInitializers": "fails on models of IR version 3",
    "onnx.RemoveInitializersFromInputs": "fails on models of IR version 3",
}


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_result_is_an_error_and_not_returned(name: str) -> None:
    model = model_of("g (float[1] a) => (float[1] x) { c = Constant <value: tensor = float[1] {3}> () x = Add(a, c) }")
    model.ir_version = 3
    value = ir.Value(name="w", const_value=ir.tensor([1.0], name="w"), shape=ir.Shape([1]))
    value.type = ir.TensorType(ir.DataType.FLOAT)
    model.graph.inputs.append(value)
    model.graph.register_initializer(value)
    options = {"size_limit": 1} if name == "onnx.LiftConstantsToInitializers" else {}
    with pytest.raises(apass.VerifyError, match=rf"made an invalid model of a valid one \(.*{INVALID[name]}"):
        run(name, model, **options)


class Renames(ir.passes.InPlacePass):
    """Does what no pass may do."""

    def call(self, model: Model) -> ir.passes.PassResult:
        model.graph.inputs[0].name = "other"
        return ir.passes.PassResult(model, modified=True)


class Fails(ir.passes.InPlacePass):
    """Fails before it begins, which onnx_ir wraps."""

    def requires(self, model: Model) -> None:
        try:
            raise LookupError("the first cause")
        except LookupError as error:
            raise KeyError("what went wrong") from error

    def call(self, model: Model) -> ir.passes.PassResult:
        raise AssertionError


def own(target: type[ir.passes.PassBase]) -> OnnxPass:
    return OnnxPass(target, apass.PassInfo(0, f"onnx.{target.__name__}"), {})


def test_a_pass_that_changes_the_interface_is_stopped() -> None:
    message = r"Renames of onnx_ir changed the inputs and outputs of the model from \['a'\] -> \['x'\] to \['other'\]"
    with pytest.raises(apass.VerifyError, match=message):
        apass.run(own(Renames), relu())


def test_what_onnx_ir_wraps_an_error_in_is_taken_off() -> None:
    with pytest.raises(KeyError, match="what went wrong") as caught:
        apass.run(own(Fails), relu())
    assert isinstance(caught.value.__cause__, LookupError)
    assert caught.value.__notes__ == ["raised in Fails of onnx_ir", "in pass 'onnx.Fails'"]


def test_what_its_cloner_wraps_an_error_in_is_taken_off() -> None:
    graph = ir.Graph([], [ir.Value(name="nowhere")], nodes=[], name="g")
    with pytest.raises(RuntimeError, match="In clone_graph") as caught:
        graph.clone()
    assert type(cause_of(caught.value)) is KeyError


@pytest.mark.parametrize(
    ("functions", "error", "message"),
    [
        (["f (p) => (q) { q = local.h(p) }", "h (p) => (q) { q = local.f(p) }"], ir.passes.PreconditionError, "Cyclic"),
        (["f (p, r) => (q) { q = Add(p, r) }"], None, ""),
    ],
)
def test_errors_of_inlining_say_what_is_wrong(
    functions: list[str], error: type[Exception] | None, message: str
) -> None:
    model = model_of("g (float[1] a) => (float[1] x) { x = local.f(a, a) }", *functions)
    if error is None:
        assert op_types(run("onnx.Inline", model)) == ["Add"]
        return
    with pytest.raises(error, match=message):
        run("onnx.Inline", model)


def test_operator_sets_that_do_not_fit_are_told() -> None:
    model = with_functions()
    model.functions["local", "f", ""].opset_imports[""] = 11
    with pytest.raises(ValueError, match="Opset mismatch when inlining function 'local::f'") as caught:
        run("onnx.Inline", model)
    assert caught.value.__notes__ == ["in pass 'onnx.Inline'"]


def test_the_checker_and_shape_inference_find_external_data_wherever_the_model_is(tmp_path: Path) -> None:
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
    made = run("onnx.ShapeInference", model)
    assert [str(node.outputs[0].shape) for node in made.graph] == ["[2]", "[2,2]", "[2,2]"]
    assert model.graph.initializers["s"].const_value is tensor
