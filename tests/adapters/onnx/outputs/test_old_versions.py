"""Old versions of operators in the reference evaluator, against onnxruntime."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from apass.adapters.onnx.outputs.evaluation import evaluate, evaluate_with_runtime

KINDS = ("Softmax", "LogSoftmax", "Hardmax")
IMAGE = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)


def model_of(node: onnx.NodeProto, opset: int, *shapes: tuple[int, ...]) -> onnx.ModelProto:
    """Return a model of one node, which has inputs of these shapes."""
    inputs = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in zip(node.input, shapes, strict=True)
    ]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name=name) for name in node.output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def normalization(kind: str, opset: int, axis: int | None, shape: tuple[int, ...]) -> onnx.ModelProto:
    """Return a model of a softmax."""
    return model_of(helper.make_node(kind, ["x"], ["y"], axis=axis), opset, shape)


def check_outputs(model: onnx.ModelProto, *inputs: Any) -> Any:
    """Check that the evaluator returns what onnxruntime does, and return it."""
    found, expected = evaluate(model, inputs), evaluate_with_runtime(model.SerializeToString(), inputs)
    assert (found.error, expected.error) == ("", "")
    assert found.outputs is not None
    assert expected.outputs is not None
    value, wanted = found.outputs[0], expected.outputs[0]
    # `strict` of `assert_allclose` needs numpy 2.
    assert (np.shape(value), np.asarray(value).dtype) == (np.shape(wanted), np.asarray(wanted).dtype)
    np.testing.assert_allclose(value, wanted, 1e-5, 1e-6)
    return found.outputs[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("opset", [7, 9, 11, 12, 13, 21])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, 3])
def test_outputs_are_those_of_onnxruntime(kind: str, opset: int, axis: int | None) -> None:
    check_outputs(normalization(kind, opset, axis, IMAGE.shape), IMAGE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("axis", [-1, -2])
def test_negative_axis_counts_from_the_last(kind: str, opset: int, axis: int) -> None:
    check_outputs(normalization(kind, opset, axis, IMAGE.shape), IMAGE)


def test_old_softmax_normalizes_later_axes_together() -> None:
    result = check_outputs(normalization("Softmax", 9, None, IMAGE.shape), IMAGE)
    np.testing.assert_allclose(result.sum(axis=(1, 2, 3)), [1, 1], 1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,)])
def test_tensor_without_elements_is_returned(kind: str, shape: tuple[int, ...]) -> None:
    found = evaluate(normalization(kind, 9, 0, shape), [np.zeros(shape, np.float32)])
    assert found.outputs is not None
    assert found.outputs[0].shape == shape


def test_axis_of_a_local_function_is_used() -> None:
    node = helper.make_node("Softmax", ["x"], ["y"])
    node.attribute.add(name="axis", ref_attr_name="at", type=onnx.AttributeProto.INT)
    opsets = [helper.make_opsetid("", 9), helper.make_opsetid("my", 1)]
    function = helper.make_function("my", "Normalize", ["x"], ["y"], [node], opsets[:1], ["at"])
    model = normalization("Softmax", 9, None, IMAGE.shape)
    model.graph.node[0].CopyFrom(helper.make_node("Normalize", ["x"], ["y"], domain="my", at=3))
    model.functions.append(function)
    model.opset_import.extend(opsets[1:])
    check_outputs(model, IMAGE)


@pytest.mark.parametrize("opset", [7, 8, 9, 13, 14, 15])
@pytest.mark.parametrize("attributes", [{}, {"epsilon": 0.5}, {"momentum": 0.5}])
def test_batch_normalization_uses_the_given_statistics(opset: int, attributes: dict[str, Any]) -> None:
    node = helper.make_node("BatchNormalization", [*"xsbmv"], ["y"], **attributes)
    rng = np.random.default_rng(1)
    channels = [rng.random(3).astype(np.float32) for _ in range(4)]
    result = check_outputs(model_of(node, opset, IMAGE.shape, *[(3,)] * 4), IMAGE, *channels)
    scale, bias, mean, variance = (values.reshape(3, 1, 1) for values in channels)
    expected = scale * (IMAGE - mean) / np.sqrt(variance + attributes.get("epsilon", 1e-5)) + bias
    np.testing.assert_allclose(result, expected, 1e-4, 1e-5)


def test_batch_normalization_has_statistics_of_each_element() -> None:
    node = helper.make_node("BatchNormalization", [*"xsbmv"], ["y"], spatial=0)
    rng = np.random.default_rng(1)
    channels = [rng.random(IMAGE.shape[1:]).astype(np.float32) for _ in range(4)]
    result = evaluate(model_of(node, 7, IMAGE.shape, *[IMAGE.shape[1:]] * 4), [IMAGE, *channels])
    assert result.outputs is not None
    scale, bias, mean, variance = channels
    expected = scale * (IMAGE - mean) / np.sqrt(variance + 1e-5) + bias
    np.testing.assert_allclose(result.outputs[0], expected, 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("opset", "attributes", "outputs"),
    [(6, {"is_test": 1}, ["y"]), (14, {"training_mode": 1}, ["y", "m2", "v2"])],
)
def test_other_batch_normalization_is_that_of_onnx(opset: int, attributes: dict[str, Any], outputs: list[str]) -> None:
    node = helper.make_node("BatchNormalization", [*"xsbmv"], outputs, **attributes)
    inputs = [IMAGE, *np.random.default_rng(1).random((4, 3)).astype(np.float32)]
    model = model_of(node, opset, *[value.shape for value in inputs])
    run: Any = ReferenceEvaluator(model)
    expected = run.run(None, dict(zip("xsbmv", inputs, strict=True)))
    found = evaluate(model, inputs)
    assert found.outputs is not None
    for value, wanted in zip(found.outputs, expected, strict=True):
        np.testing.assert_array_equal(value, wanted, strict=True)
