"""Convolutions compared with ONNX's reference, and poolings with a plain loop."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.amounts import amount
from tests.relay.frontend.models import Numbers, evaluate_model, model, reference


@dataclass(frozen=True, slots=True)
class Windows:
    """The geometry of windows, with one entry for each spatial dimension."""

    dims: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]

    def attributes(self) -> str:
        """Return the geometry as attributes of a node."""
        return f"strides = {list(self.strides)}, dilations = {list(self.dilations)}, kernel_shape = {list(self.sizes)}"


@st.composite
def windows(draw: st.DrawFn) -> Windows:
    """Draw windows in one or two dimensions; the padding is less than their extent."""
    rank = draw(st.integers(1, 2))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    sizes, dilations = each(1, 3), each(1, 2)
    spans = [(size - 1) * step + 1 for size, step in zip(sizes, dilations, strict=True)]
    pads = tuple(draw(st.integers(0, span - 1)) for _ in range(2) for span in spans)
    return Windows(each(5, 7), sizes, each(1, 3), dilations, pads)


def random_array(*shape: int) -> Numbers:
    """Return random numbers."""
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


@settings(max_examples=amount(60))
@given(windows(), st.sampled_from(["pads", "SAME_UPPER", "SAME_LOWER", "VALID"]), st.sampled_from([1, 2, 4]))
def test_convolution_equals_reference(geometry: Windows, padding: str, groups: int) -> None:
    padding_attribute = f"pads = {list(geometry.pads)}" if padding == "pads" else f'auto_pad = "{padding}"'
    rank = len(geometry.dims)
    free = ", ".join("KLM"[: rank + 2])
    proto = model(
        f"g (float{[2, 4, *geometry.dims]} x, float{[8, 4 // groups, *geometry.sizes]} w, float[8] b) "
        f"=> (float[{free}] y) "
        f"{{ y = Conv<{geometry.attributes()}, group = {groups}, {padding_attribute}>(x, w, b) }}"
    )
    inputs = random_array(2, 4, *geometry.dims), random_array(8, 4 // groups, *geometry.sizes), random_array(8)
    np.testing.assert_allclose(evaluate_model(proto, *inputs)[0], reference(proto, *inputs)[0], rtol=1e-3, atol=1e-4)


@settings(max_examples=amount(60))
@given(windows(), st.data())
def test_transposed_convolution_equals_reference(geometry: Windows, data: st.DataObject) -> None:
    extra = [data.draw(st.integers(0, stride - 1)) for stride in geometry.strides]
    proto = model(
        f"g (float{[2, 4, *geometry.dims]} x, float{[4, 3, *geometry.sizes]} w) => (float[K] y) "
        f"{{ y = ConvTranspose<{geometry.attributes()}, pads = {list(geometry.pads)}, "
        f"output_padding = {extra}>(x, w) }}"
    )
    inputs = random_array(2, 4, *geometry.dims), random_array(4, 3, *geometry.sizes)
    np.testing.assert_allclose(evaluate_model(proto, *inputs)[0], reference(proto, *inputs)[0], rtol=1e-3, atol=1e-4)


def pooled(data: Numbers, geometry: Windows, operator: str) -> Numbers:
    """Return a pooling, computed in a loop over the windows."""
    rank = len(geometry.dims)
    sides = [(0, 0), (0, 0), *zip(geometry.pads[:rank], geometry.pads[rank:], strict=True)]
    filler = 0.0 if "include" in operator else np.nan
    padded = np.pad(data, np.array(sides), constant_values=filler)
    spans = [(size - 1) * step + 1 for size, step in zip(geometry.sizes, geometry.dilations, strict=True)]
    ends = [dim - span + 1 for dim, span in zip(padded.shape[2:], spans, strict=True)]
    starts = [range(0, end, stride) for end, stride in zip(ends, geometry.strides, strict=True)]
    result = np.empty((*data.shape[:2], *map(len, starts)))
    rows = result.reshape(*data.shape[:2], -1)
    for row, first in enumerate(product(*starts)):
        window = [slice(at, at + span, step) for at, span, step in zip(first, spans, geometry.dilations, strict=True)]
        elements = padded[(slice(None), slice(None), *window)].reshape(*data.shape[:2], -1)
        rows[:, :, row] = (np.nanmax if "Max" in operator else np.nanmean)(elements, axis=-1)
    return result


@settings(max_examples=amount(60))
@given(windows(), st.sampled_from(["MaxPool<", "AveragePool<", "AveragePool<count_include_pad = 1, "]))
def test_pooling_equals_loop_over_windows(geometry: Windows, operator: str) -> None:
    node = f"{operator}{geometry.attributes()}, pads = {list(geometry.pads)}>(x)"
    proto = model(f"g (float{[2, 4, *geometry.dims]} x) => (float[K] y) {{ y = {node} }}", opset=19)
    data = random_array(2, 4, *geometry.dims)
    np.testing.assert_allclose(evaluate_model(proto, data)[0], pooled(data, geometry, operator), rtol=1e-4, atol=1e-5)


X = np.arange(1, 7, dtype="float32").reshape(1, 1, 6)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("AveragePool<kernel_shape = [2], strides = [3], dilations = [2], pads = [1, 0], ceil_mode = 1>", [2, 4, 6]),
        ("AveragePool<kernel_shape = [2], strides = [4], ceil_mode = 1, count_include_pad = 1>", [1.5, 5.5]),
        (
            "AveragePool<kernel_shape = [3], strides = [2], pads = [0, 1], ceil_mode = 1, count_include_pad = 1>",
            [2, 4, 11 / 3],
        ),
        ('AveragePool<kernel_shape = [3], dilations = [2], auto_pad = "VALID">', [3, 4]),
        ('MaxPool<kernel_shape = [2], strides = [4], auto_pad = "SAME_LOWER">', [2, 6]),
        ('MaxPool<kernel_shape = [3], strides = [4], auto_pad = "SAME_UPPER">', [3, 6]),
        # The window that would start in the padding after the data is left out.
        ("MaxPool<kernel_shape = [1], strides = [2], pads = [0, 1], ceil_mode = 1>", [1, 3, 5]),
        ("MaxPool<kernel_shape = [2], strides = [3], ceil_mode = 1>", [2, 5]),
        ("MaxPool<kernel_shape = [4], strides = [3], ceil_mode = 1>", [4, 6]),
        ("LpPool<kernel_shape = [4], strides = [3], p = 1, ceil_mode = 1>", [10, 15]),
        ("GlobalLpPool<p = 1>", [21]),
    ],
)
def test_windows_at_edges_have_expected_results(node: str, expected: list[float]) -> None:
    proto = model(f"g (float[1, 1, 6] x) => (float[1, 1, K] y) {{ y = {node}(x) }}", opset=19)
    np.testing.assert_allclose(evaluate_model(proto, X)[0].reshape(-1), expected, rtol=1e-6)


def test_max_pool_indices_skip_windows_after_data() -> None:
    node = "MaxPool<kernel_shape = [1], strides = [3], pads = [0, 1], ceil_mode = 1>"
    proto = model(f"g (float[1, 1, 6] x) => (float[1, 1, K] y, int64[1, 1, K] i) {{ y, i = {node}(x) }}", opset=12)
    assert [output.tolist() for output in evaluate_model(proto, X)] == [[[[1, 4]]], [[[0, 3]]]]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("output_shape = [5]", [1, 2, 3, 0, 0]),
        ('auto_pad = "SAME_UPPER", strides = [2]', [1, 0, 2, 0, 3, 0]),
        ("output_shape = [2]", [2, 3]),
        ('output_shape = [2], auto_pad = "SAME_UPPER"', [1, 2]),
    ],
)
def test_transposed_convolution_has_requested_size(attributes: str, expected: list[float]) -> None:
    proto = model(
        f"g (float[1, 1, 3] x, float[1, 1, 1] w) => (float[1, 1, K] y) {{ y = ConvTranspose<{attributes}>(x, w) }}"
    )
    result = evaluate_model(proto, np.asarray([[[1, 2, 3]]], "float32"), np.ones((1, 1, 1), "float32"))
    assert result[0].reshape(-1).tolist() == expected


def test_windows_accept_dynamic_dimensions() -> None:
    proto = model("""
        g (float[N, 2, H, W] x, float[3, 2, 3, 3] w) => (float[N, 3, I, J] y) {
            t = Conv<auto_pad = "SAME_UPPER">(x, w)
            y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(t)
        }
    """)
    inputs = random_array(2, 2, 6, 8), random_array(3, 2, 3, 3)
    np.testing.assert_allclose(evaluate_model(proto, *inputs)[0], reference(proto, *inputs)[0], rtol=1e-4, atol=1e-5)
