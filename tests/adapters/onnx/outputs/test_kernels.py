"""Fast operators of the reference evaluator against those of onnx."""

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx.helper import (
    make_graph,
    make_model,
    make_node,
    make_opsetid,
    make_tensor_value_info,
    np_dtype_to_tensor_dtype,
)
from onnx.reference import ReferenceEvaluator

from apass.adapters.onnx.outputs.kernels import FUNCTIONS, KERNELS

DTYPES = (np.float32, np.float64, np.float16, np.int8)


@st.composite
def windows(draw: st.DrawFn) -> tuple[dict[str, Any], tuple[int, ...], np.random.Generator]:
    """Draw the attributes of a window, a spatial shape, and a source of values."""
    count = draw(st.sampled_from((1, 2, 2, 3)))

    def sizes(low: int, high: int, number: int = count) -> Any:
        return st.lists(st.integers(low, high), min_size=number, max_size=number)

    attributes: dict[str, Any] = {"kernel_shape": draw(sizes(1, 3))}
    choices: dict[str, Any] = {
        "strides": sizes(1, 3) | sizes(1, 1),
        "pads": sizes(0, 2, 2 * count) | st.integers(0, 2).map(lambda pad: [pad] * (2 * count)),
        "dilations": sizes(1, 2),
        "auto_pad": st.sampled_from(("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")),
    }
    for name in draw(st.sets(st.sampled_from(("strides", "pads", "strides", "pads", "dilations", "auto_pad")))):
        attributes[name] = draw(choices[name])
    return attributes, tuple(draw(sizes(1, 6))), np.random.default_rng(draw(st.integers(0, 1000)))


def outcome(op: str, operands: list[Any], attributes: dict[str, Any], kernels: Any, opset: int = 22) -> Any:
    """Return the outputs of one node, or the text of its error."""
    names = [f"x{index}" for index in range(len(operands))]
    infos = [
        make_tensor_value_info(name, np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in zip(names, operands, strict=True)
    ]
    graph = make_graph([make_node(op, names, ["y"], **attributes)], "g", infos, [onnx.ValueInfoProto(name="y")])
    model = make_model(graph, opset_imports=[make_opsetid("", opset)])
    with np.errstate(all="ignore"):
        try:
            run: Any = ReferenceEvaluator(model, new_ops=kernels)
            return run.run(None, dict(zip(names, operands, strict=True)))
        except Exception as error:
            return f"{type(error).__name__}: {error}"


def check_same(op: str, operands: list[Any], attributes: dict[str, Any], opset: int = 22) -> None:
    """Check that the fast operator returns what the one of onnx returns."""
    expected, actual = (outcome(op, operands, attributes, kernels, opset) for kernels in (None, KERNELS))
    if isinstance(expected, str):
        assert actual == expected
        return
    assert actual[0].dtype == expected[0].dtype
    np.testing.assert_array_equal(actual[0], expected[0], strict=True)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning", "ignore:Mean of empty slice:RuntimeWarning")
@given(windows(), st.sampled_from((1, 1, 2, 3)), st.sampled_from(DTYPES), st.booleans())
def test_conv_returns_the_values_of_onnx(window: Any, group: int, dtype: Any, is_biased: bool) -> None:
    attributes, shape, rng = window
    operands = [
        rng.standard_normal((2, 2 * group, *shape)),
        rng.standard_normal((group, 2, *attributes["kernel_shape"])),
    ]
    operands += [rng.standard_normal(group)] if is_biased else []
    check_same("Conv", [(3 * value).astype(dtype) for value in operands], {**attributes, "group": group})


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning", "ignore:Mean of empty slice:RuntimeWarning")
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@given(window=windows(), dtype=st.sampled_from(DTYPES), nans=st.integers(0, 3), options=st.integers(0, 3))
def test_pool_returns_the_values_of_onnx(op: str, window: Any, dtype: Any, nans: int, options: int) -> None:
    attributes, shape, rng = window
    values = (3 * rng.standard_normal((2, 2, *shape))).astype(dtype)
    if nans == 3 and dtype is not np.int8:
        values.flat[0] = np.nan
    attributes["ceil_mode"] = int(options == 3)
    if op == "AveragePool":
        attributes["count_include_pad"] = options % 2
    check_same(op, [values], attributes)


@pytest.mark.parametrize("opset", [7, 11, 19])
def test_average_of_older_opsets_is_that_of_onnx(opset: int) -> None:
    values = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
    check_same("AveragePool", [values], attributes, opset)
    check_same("AveragePool", [values.astype(np.int8)], attributes, opset)


NOTHING = dict.fromkeys(("auto_pad", "dilations", "kernel_shape", "pads", "strides", "group", "ceil_mode"))
IMAGE = np.ones((1, 2, 5, 5), np.float32)


@pytest.mark.parametrize("op", FUNCTIONS)
def test_plain_window_has_a_fast_function(op: str) -> None:
    attributes = {**NOTHING, "kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 0, 1, 0], "count_include_pad": 0}
    operands = [IMAGE, np.ones((4, 2, 3, 3), np.float32)] if op == "Conv" else [IMAGE]
    result = FUNCTIONS[op](operands, attributes)
    assert result is not None
    assert result.shape == (1, 4 if op == "Conv" else 2, 3, 2)
    assert FUNCTIONS[op](operands, {**attributes, "dilations": [2, 2]}) is None
    assert FUNCTIONS[op](operands, {**attributes, "auto_pad": "SAME_UPPER"}) is None
