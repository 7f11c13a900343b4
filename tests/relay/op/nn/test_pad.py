"""Padding and moves of elements: numpy, ONNX, round trips, and types."""

from typing import Any as Untyped

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from apass.relay.expr import Call, Constant
from apass.relay.ir.expr import const
from apass.relay.op import nn
from apass.relay.op.define.layout import convert_array, parse_layout
from apass.relay.ty import Any, TensorType
from tests.helpers.relay.kernel_checks import X, Y, evaluated, inferred, numbers, onnx_outputs, refused, same

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=2, max_side=4)


@given(SHAPES, st.data(), st.sampled_from(["constant", "edge", "reflect"]), st.sampled_from(["float32", "int8"]))
def test_pad_agrees_with_numpy(shape: tuple[int, ...], data: st.DataObject, mode: str, dtype: str) -> None:
    width = [(data.draw(st.integers(0, 1)), data.draw(st.integers(0, 1))) for _ in shape]
    array = numbers(*shape, dtype=dtype)
    constant: dict[str, Untyped] = {"constant_values": 3} if mode == "constant" else {}
    numpy_mode: Untyped = mode
    same(evaluated(nn.pad(X, width, 3.0, mode), array), np.pad(array, np.array(width), numpy_mode, **constant))


@pytest.mark.parametrize(
    ("width", "expected"), [((-1, 2), [1, 2, 9, 9]), ((1, -2), [9, 0]), ((-4, 2), [9]), ((-3, 0), []), ((-1, -1), [1])]
)
def test_negative_width_removes_elements(width: tuple[int, int], expected: list[int]) -> None:
    same(evaluated(nn.pad(X, [width], 9), np.arange(3, dtype="float32")), np.array(expected, "float32"))
    assert inferred(nn.pad(X, [width]), TensorType((3,)), None) == [None, None, TensorType((len(expected),))]


@given(SHAPES, st.data(), st.sampled_from(["SYMMETRIC", "REFLECT"]))
def test_mirror_pad_agrees_with_numpy(shape: tuple[int, ...], data: st.DataObject, mode: str) -> None:
    width = [(data.draw(st.integers(0, 1)), data.draw(st.integers(0, 1))) for _ in shape]
    array = numbers(*shape)
    numpy_mode: Untyped = mode.lower()
    same(evaluated(nn.mirror_pad(X, width, mode), array), np.pad(array, np.array(width), numpy_mode))


def test_pad_value_is_an_operand() -> None:
    call = nn.pad(X, [[0, 1]], 0)
    (_, value) = call.args
    assert isinstance(value, Constant)
    assert value.data.dtype == "int32"
    assert nn.pad(X, [[0, 1]], Y).args == (X, Y)
    same(evaluated(nn.pad(X, [[0, 1]], Y), np.array([1.5]), np.float32(2.5)), [1.5, 2.5])


def test_pad_width_accepts_a_constant() -> None:
    attrs = nn.pad(X, const([[1, 2], [3, 4]])).attrs
    assert attrs is not None
    assert attrs["pad_width"] == ((1, 2), (3, 4))


def test_mirror_pad_rejects_a_computed_width() -> None:
    width: Untyped = Y
    with pytest.raises(TypeError, match=r"pad_width must be numbers or a constant, got <relay.Var %y>"):
        nn.mirror_pad(X, width)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.sampled_from(["DCR", "CDR"]))
def test_depth_to_space_agrees_with_onnx(size: int, depth: int, side: int, mode: str) -> None:
    data = numbers(2, depth * size * size, side, side + 1)
    (expected,) = onnx_outputs("DepthToSpace", (data,), blocksize=size, mode=mode)
    same(evaluated(nn.depth_to_space(X, size, mode=mode), data), expected)
    plain, last = parse_layout("NCHW"), parse_layout("NHWC")
    out = evaluated(nn.depth_to_space(X, size, "NHWC", mode), convert_array(data, plain, last))
    same(convert_array(out, last, plain), expected)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2))
def test_space_to_depth_inverts_depth_to_space(size: int, depth: int, side: int) -> None:
    data = numbers(2, depth, side * size, (side + 1) * size)
    out = evaluated(nn.space_to_depth(X, size), data)
    same(out, onnx_outputs("SpaceToDepth", (data,), blocksize=size)[0])
    same(evaluated(nn.depth_to_space(X, size), out), data)


def test_space_to_batch_makes_block_elements_samples() -> None:
    data = np.arange(1, 17).reshape(1, 4, 4, 1)
    out = evaluated(nn.space_to_batch_nd(X, [2, 2], [[0, 0], [0, 0]]), data)
    assert out.squeeze(-1).tolist() == [[[1, 3], [9, 11]], [[2, 4], [10, 12]], [[5, 7], [13, 15]], [[6, 8], [14, 16]]]


@given(st.integers(1, 3), st.lists(st.integers(1, 3), min_size=1, max_size=2), st.data())
def test_batch_to_space_is_the_inverse(batch: int, block: list[int], data: st.DataObject) -> None:
    pads = [(data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))) for _ in block]
    axes = zip(block, pads, strict=True)
    lengths = [size * data.draw(st.integers(sum(pair) // size + 1, 6)) - sum(pair) for size, pair in axes]
    array = numbers(batch, *lengths, 2)
    out = evaluated(nn.space_to_batch_nd(X, block, pads, 7), array)
    same(evaluated(nn.batch_to_space_nd(X, block, pads), out), array)


@given(SHAPES, st.data())
def test_dilate_inserts_a_value_between_neighbours(shape: tuple[int, ...], data: st.DataObject) -> None:
    strides = tuple(data.draw(st.integers(1, 3)) for _ in shape)
    array = numbers(*shape)
    out = evaluated(nn.dilate(X, strides, 0.5), array)
    positions = tuple(slice(None, None, stride) for stride in strides)
    same(out[positions], array)
    out[positions] = 0.5
    assert (out == 0.5).all()


@given(st.integers(1, 4), st.integers(0, 3), st.integers(-2, 1))
def test_fifo_buffer_drops_the_oldest_elements(length: int, new: int, axis: int) -> None:
    buffer, data = (np.moveaxis(numbers(n, 2, seed=n), 0, axis) for n in (length, min(new, length)))
    out = evaluated(nn.fifo_buffer(X, Y, axis), data, buffer)
    rows = np.concatenate((np.moveaxis(buffer, axis, 0), np.moveaxis(data, axis, 0)))
    same(np.moveaxis(out, axis, 0), rows[-length:])


def test_symbolic_dimensions_stay_symbolic() -> None:
    data = TensorType((Any(), 8, Any(), 6))
    width = [(0, 0), (1, 2), (0, 1), (0, 0)]
    assert inferred(nn.pad(X, width), data, None) == [None, None, TensorType((Any(), 11, Any(), 6))]
    assert inferred(nn.mirror_pad(X, width), data) == [None, TensorType((Any(), 11, Any(), 6))]
    assert inferred(nn.depth_to_space(X, 2), data) == [None, TensorType((Any(), 2, Any(), 12))]
    assert inferred(nn.space_to_depth(X, 2), data) == [None, TensorType((Any(), 32, Any(), 3))]
    assert inferred(nn.pad(X, width), None, TensorType(())) is None


@pytest.mark.parametrize(
    ("call", "types", "message"),
    [
        (
            nn.pad(X, [[1, 1]]),
            (TensorType((2, 3)), None),
            "nn.pad: pad_width must be a pair for each dimension of Tensor[(2, 3), float32], got ((1, 1),)",
        ),
        (
            nn.pad(X, [[1, -4]]),
            (TensorType((2,)), None),
            "nn.pad: pad_width ((1, -4),) removes more elements than Tensor[(2), float32] has",
        ),
        (
            nn.mirror_pad(X, [[1, -1]]),
            (TensorType((2,)),),
            "nn.mirror_pad: pad_width must not be negative, got ((1, -1),); use strided_slice to remove elements",
        ),
        (
            nn.pad(X, [[1, 1]], 0, "edges"),
            (TensorType((2,)), None),
            "nn.pad: mode must be one of ['constant', 'edge', 'reflect'], got 'edges'",
        ),
        (
            nn.pad(X, [[1, 1]], Y),
            (TensorType((2,)), TensorType((1,))),
            "nn.pad: pad_value must be a scalar, got Tensor[(1), float32]",
        ),
        (
            nn.depth_to_space(X, 2),
            (TensorType((1, 6, 1, 1)),),
            "nn.depth_to_space: the number of channels must be a multiple of 4, got 6",
        ),
        (
            nn.depth_to_space(X, 2, mode="RCD"),
            (TensorType((1, 4, 1, 1)),),
            "nn.depth_to_space: mode must be DCR or CDR, got 'RCD'",
        ),
        (
            nn.space_to_depth(X, 2),
            (TensorType((1, 6, 2, 3)),),
            "nn.space_to_depth: the width must be a multiple of 2, got 3",
        ),
        (
            nn.space_to_batch_nd(X, [2], [[0, 0]]),
            (TensorType((1, 3)),),
            "nn.space_to_batch_nd: a padded dimension must be a multiple of 2, got 3",
        ),
        (
            nn.batch_to_space_nd(X, [2], [[2, 2]]),
            (TensorType((2, 2)),),
            "nn.batch_to_space_nd: crops ((2, 2),) remove a whole dimension of [4]",
        ),
        (
            nn.fifo_buffer(X, Y, 0),
            (TensorType((3, 2)), TensorType((2, 2))),
            "nn.fifo_buffer: the data may have at most 2 elements along axis 0, got 3",
        ),
    ],
)
def test_operands_that_do_not_fit_are_rejected(call: Call, types: tuple[TensorType | None, ...], message: str) -> None:
    assert refused(call, *types) == message
