"""Resizing and upsampling: all modes of ONNX's Resize, and types."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any as Untyped

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator

from apass.relay.expr import Call
from apass.relay.ir.expr import const
from apass.relay.op import image, nn
from apass.relay.op.define.layout import convert_array, parse_layout
from apass.relay.ty import Any, TensorType
from tests.helpers.amounts import amount
from tests.helpers.relay.kernel_checks import Numbers, X, Y, close, evaluated, inferred, numbers, refused, same

RESIZE = {1: image.resize1d, 2: image.resize2d, 3: image.resize3d}
MODES = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]


def onnx_resize(data: Numbers, sizes: tuple[int, ...], method: str, mode: str, **options: Untyped) -> Numbers:
    """Return the result of ONNX's reference evaluator for a Resize to `sizes`."""
    node = helper.make_node(
        "Resize", ["x", "", "", "sizes"], ["out"], mode=method, coordinate_transformation_mode=mode, **options
    )
    inputs = {"x": data, "sizes": np.array([*data.shape[: -len(sizes)], *sizes])}
    declared = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    graph = helper.make_graph([node], "resize", declared, [helper.make_tensor_value_info("out", 0, None)])
    evaluator: Untyped = ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)]))
    return np.asarray(evaluator.run(None, inputs)[0])


def source_position(index: int, src: int, dst: int, mode: str) -> Fraction:
    """Return the exact position in the data of an index of the result."""
    if mode == "align_corners":
        return Fraction(index * (src - 1), max(dst - 1, 1))
    if mode == "asymmetric":
        return Fraction(index * src, dst)
    if mode == "tf_half_pixel_for_nn":
        return (index + Fraction(1, 2)) * src / dst
    if mode == "pytorch_half_pixel" and dst == 1:
        return Fraction(0)
    return (index + Fraction(1, 2)) * src / dst - Fraction(1, 2)


def nearest(position: Fraction, rounding: str) -> int:
    """Return the integer that is nearest according to a rounding method."""
    half = Fraction(1, 2)
    if rounding == "floor":
        return position.__floor__()
    if rounding == "ceil":
        return position.__ceil__()
    if rounding == "round_prefer_floor":
        return (position - half).__ceil__()
    return (position + half).__floor__()


LENGTHS = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 9)), min_size=1, max_size=3)


@settings(max_examples=amount(100))
@given(
    LENGTHS,
    st.sampled_from([*MODES, "tf_half_pixel_for_nn"]),
    st.sampled_from(["", "round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
    st.sampled_from(["float32", "int8"]),
)
def test_nearest_resizing_agrees_with_exact_arithmetic(
    lengths: list[tuple[int, int]], mode: str, rounding: str, dtype: str
) -> None:
    rank, sizes = len(lengths), tuple(dst for _, dst in lengths)
    data = numbers(2, 1, *(src for src, _ in lengths), dtype=dtype)
    default = "round" if mode == "align_corners" else "floor"
    expected = data
    for axis, (src, dst) in enumerate(lengths, 2):
        chosen = [nearest(source_position(i, src, dst, mode), rounding or default) for i in range(dst)]
        expected = expected.take(np.clip(chosen, 0, src - 1), axis)
    call = RESIZE[rank](X, sizes, parse_plain(rank), "nearest_neighbor", mode, rounding)
    same(evaluated(call, data), expected)


def parse_plain(rank: int) -> str:
    """Return the default layout of a number of spatial dimensions."""
    return ("NCW", "NCHW", "NCDHW")[rank - 1]


@settings(max_examples=amount(60))
@given(LENGTHS, st.sampled_from(MODES))
def test_linear_resizing_agrees_with_onnx(lengths: list[tuple[int, int]], mode: str) -> None:
    sizes = tuple(dst for _, dst in lengths)
    data = numbers(2, 1, *(src for src, _ in lengths))
    out = evaluated(RESIZE[len(sizes)](X, sizes, parse_plain(len(sizes)), "linear", mode), data)
    close(out, onnx_resize(data, sizes, "linear", mode), 1e-4)


@settings(max_examples=amount(60))
@given(
    st.tuples(st.integers(2, 6), st.integers(2, 6)),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.sampled_from(MODES),
    st.booleans(),
    st.sampled_from([-0.5, -0.75]),
)
def test_cubic_resizing_agrees_with_onnx(
    lengths: tuple[int, int], sizes: tuple[int, int], mode: str, exclude: bool, alpha: float
) -> None:
    # If PyTorch's coordinates yield one position, ONNX defines it as 0, but its evaluator computes -0.5.
    assume(mode != "pytorch_half_pixel" or 1 not in sizes)
    data = numbers(1, 2, *lengths)
    call = image.resize2d(X, sizes, "NCHW", "cubic", mode, "", alpha, int(exclude))
    expected = onnx_resize(data, sizes, "cubic", mode, exclude_outside=int(exclude), cubic_coeff_a=alpha)
    close(evaluated(call, data), expected, 1e-4)


def test_resizing_to_the_same_size_changes_nothing() -> None:
    data = numbers(1, 2, 5, 7)
    for method in ("nearest_neighbor", "linear", "cubic"):
        for mode in ("half_pixel", "align_corners", "asymmetric"):
            close(evaluated(image.resize2d(X, (5, 7), "NCHW", method, mode), data), data, 1e-6)


def test_layout_changes_only_the_order_of_elements() -> None:
    data = numbers(1, 4, 5, 7)
    plain = parse_layout("NCHW")
    for name in ("NHWC", "NCHW2c"):
        other = parse_layout(name)
        out = evaluated(image.resize2d(X, (3, 9), name), convert_array(data, plain, other))
        close(convert_array(out, other, plain), evaluated(image.resize2d(X, (3, 9)), data))


def test_result_has_the_requested_element_type() -> None:
    out = evaluated(image.resize2d(X, (4, 4), out_dtype="float32"), numbers(1, 1, 2, 2, dtype="uint8"))
    assert out.dtype == "float32"


@pytest.mark.parametrize("method", ["nearest_neighbor", "bilinear", "bicubic"])
@pytest.mark.parametrize("align", [False, True])
def test_upsampling_is_resizing_by_factors(method: str, align: bool) -> None:
    data = numbers(1, 2, 4, 6)
    mode = "align_corners" if align else "asymmetric"
    plain = {"nearest_neighbor": "nearest_neighbor", "bilinear": "linear", "bicubic": "cubic"}[method]
    out = evaluated(nn.upsampling(X, 2, 1.5, "NCHW", method, align), data)
    same(out, evaluated(image.resize2d(X, (8, 9), "NCHW", plain, mode), data))


@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("method", ["nearest_neighbor", "trilinear"])
def test_upsampling3d_is_resizing_by_factors(mode: str, method: str) -> None:
    data = numbers(1, 1, 2, 3, 4)
    plain = "linear" if method == "trilinear" else method
    out = evaluated(nn.upsampling3d(X, 2, 3, 1, "NCDHW", method, mode), data)
    same(out, evaluated(image.resize3d(X, (4, 9, 4), "NCDHW", plain, mode), data))


def test_nearest_upsampling_repeats_each_element() -> None:
    data = numbers(1, 2, 3, 4)
    same(evaluated(nn.upsampling(X, 2, 3), data), data.repeat(2, 2).repeat(3, 3))


def test_sizes_and_scales_accept_constants() -> None:
    resized, scaled = image.resize2d(X, const([3, 4])).attrs, nn.upsampling(X, const(2.0), 3).attrs
    assert resized is not None
    assert scaled is not None
    assert resized["size"] == (3, 4)
    assert (scaled["scale_h"], scaled["scale_w"]) == (2.0, 3.0)


@pytest.mark.parametrize("resize", [image.resize1d, image.resize3d])
def test_resize1d_and_resize3d_reject_computed_sizes(resize: Callable[..., Call]) -> None:
    with pytest.raises(TypeError, match=r"size must be numbers or a constant, got <relay.Var %y>"):
        resize(X, Y)


def test_symbolic_dimensions_stay_symbolic() -> None:
    data = TensorType((Any(), 3, Any(), 5), "int8")
    assert inferred(image.resize2d(X, (7, 8)), data) == [None, TensorType((Any(), 3, 7, 8), "int8")]
    assert inferred(nn.upsampling(X, 2, 2), data) == [None, TensorType((Any(), 3, Any(), 10), "int8")]
    assert inferred(image.resize1d(X, 3), None) is None


@pytest.mark.parametrize(
    ("call", "shape", "message"),
    [
        (image.resize2d(X, (0, 3)), (1, 1, 2, 2), "image.resize2d: size must be 2 positive numbers, got (0, 3)"),
        (
            image.resize2d(X, (1, 3), "NCW"),
            (1, 1, 2, 2),
            "image.resize2d: layout must have the axes of NCHW, got NCW; reorder or split the axes of NCHW",
        ),
        (
            image.resize2d(X, (1, 3), "NCHW", "nearest_neighbour"),
            (1, 1, 2, 2),
            "image.resize2d: unknown method 'nearest_neighbour'; did you mean 'nearest_neighbor'?",
        ),
        (
            image.resize2d(X, (1, 3), "NCHW", "cubic", "pixel"),
            (1, 1, 2, 2),
            "image.resize2d: unknown coordinate_transformation_mode 'pixel'; did you mean 'half_pixel'?",
        ),
        (
            nn.upsampling(X, 2, 2, method="linear"),
            (1, 1, 2, 2),
            "nn.upsampling: unknown method 'linear'; did you mean 'bilinear'?",
        ),
    ],
)
def test_invalid_resize_is_rejected(call: Call, shape: tuple[int, ...], message: str) -> None:
    assert refused(call, TensorType(shape)) == message
