"""Padding, and what moves numbers about: against numpy, ONNX and round trips; what the types tell."""

from typing import Any as Whatever

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from apass.relay.expr import Call, Constant
from apass.relay.make import const
from apass.relay.op import nn
from apass.relay.op.define.layout import convert_array, parse_layout
from apass.relay.ty import Any, TensorType
from tests.relay.op.nn.checks import X, Y, evaluated, inferred, numbers, onnx_outputs, refused, same

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=2, max_side=4)


@given(SHAPES, st.data(), st.sampled_from(["constant", "edge", "reflect"]), st.sampled_from(["float32", "int8"]))
def test_pad_is_that_of_numpy(shape: tuple[int, ...], data: st.DataObject, mode: str, dtype: str) -> None:
    width = [(data.draw(st.integers(0, 1)), data.draw(st.integers(0, 1))) for _ in shape]
    array = numbers(*shape, dtype=dtype)
    more: dict[str, Whatever] = {"constant_values": 3} if mode == "constant" else {}
    options: Whatever = mode
    same(evaluated(nn.pad(X, width, 3.0, mode), array), np.pad(array, np.array(width), options, **more))


@pytest.mark.parametrize(
    ("width", "right"), [((-1, 2), [1, 2, 9, 9]), ((1, -2), [9, 0]), ((-4, 2), [9]), ((-3, 0), []), ((-1, -1), [1])]
)
def test_a_negative_width_cuts_off(width: tuple[int, int], right: list[int]) -> None:
    same(evaluated(nn.pad(X, [width], 9), np.arange(3, dtype="float32")), np.array(right, "float32"))
    assert inferred(nn.pad(X, [width]), TensorType((3,)), None) == [None, None, TensorType((len(right),))]


@given(SHAPES, st.data(), st.sampled_from(["SYMMETRIC", "REFLECT"]))
def test_mirror_pad_is_that_of_numpy(shape: tuple[int, ...], data: st.DataObject, mode: str) -> None:
    width = [(data.draw(st.integers(0, 1)), data.draw(st.integers(0, 1))) for _ in shape]
    array = numbers(*shape)
    options: Whatever = mode.lower()
    same(evaluated(nn.mirror_pad(X, width, mode), array), np.pad(array, np.array(width), options))


def test_the_value_to_pad_with_is_an_operand() -> None:
    call = nn.pad(X, [[0, 1]], 0)
    (_, value) = call.args
    assert isinstance(value, Constant)
    assert value.data.dtype == "int32"
    assert nn.pad(X, [[0, 1]], Y).args == (X, Y)
    same(evaluated(nn.pad(X, [[0, 1]], Y), np.array([1.5]), np.float32(2.5)), [1.5, 2.5])


def test_the_width_may_be_a_constant() -> None:
    attrs = nn.pad(X, const([[1, 2], [3, 4]])).attrs
    assert attrs is not None
    assert attrs["pad_width"] == ((1, 2), (3, 4))


def test_the_width_of_a_mirror_image_must_be_known_now() -> None:
    width: Whatever = Y
    with pytest.raises(TypeError, match=r"pad_width must be numbers or a constant, not <relay.Var %y>"):
        nn.mirror_pad(X, width)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.sampled_from(["DCR", "CDR"]))
def test_depth_to_space_is_that_of_onnx(size: int, depth: int, side: int, mode: str) -> None:
    data = numbers(2, depth * size * size, side, side + 1)
    (expected,) = onnx_outputs("DepthToSpace", (data,), blocksize=size, mode=mode)
    same(evaluated(nn.depth_to_space(X, size, mode=mode), data), expected)
    plain, last = parse_layout("NCHW"), parse_layout("NHWC")
    out = evaluated(nn.depth_to_space(X, size, "NHWC", mode), convert_array(data, plain, last))
    same(convert_array(out, last, plain), expected)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2))
def test_space_to_depth_is_that_of_onnx_and_undone_by_depth_to_space(size: int, depth: int, side: int) -> None:
    data = numbers(2, depth, side * size, (side + 1) * size)
    out = evaluated(nn.space_to_depth(X, size), data)
    same(out, onnx_outputs("SpaceToDepth", (data,), blocksize=size)[0])
    same(evaluated(nn.depth_to_space(X, size), out), data)


def test_space_to_batch_takes_each_place_of_a_block_to_a_sample_of_its_own() -> None:
    data = np.arange(1, 17).reshape(1, 4, 4, 1)
    out = evaluated(nn.space_to_batch_nd(X, [2, 2], [[0, 0], [0, 0]]), data)
    assert out.squeeze(-1).tolist() == [[[1, 3], [9, 11]], [[2, 4], [10, 12]], [[5, 7], [13, 15]], [[6, 8], [14, 16]]]


@given(st.integers(1, 3), st.lists(st.integers(1, 3), min_size=1, max_size=2), st.data())
def test_batch_to_space_undoes_space_to_batch(batch: int, block: list[int], data: st.DataObject) -> None:
    pads = [(data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))) for _ in block]
    rooms = zip(block, pads, strict=True)
    lengths = [size * data.draw(st.integers(sum(pair) // size + 1, 6)) - sum(pair) for size, pair in rooms]
    array = numbers(batch, *lengths, 2)
    out = evaluated(nn.space_to_batch_nd(X, block, pads, 7), array)
    same(evaluated(nn.batch_to_space_nd(X, block, pads), out), array)


@given(SHAPES, st.data())
def test_dilation_puts_a_value_between_neighbours(shape: tuple[int, ...], data: st.DataObject) -> None:
    strides = tuple(data.draw(st.integers(1, 3)) for _ in shape)
    array = numbers(*shape)
    out = evaluated(nn.dilate(X, strides, 0.5), array)
    places = tuple(slice(None, None, stride) for stride in strides)
    same(out[places], array)
    out[places] = 0.5
    assert (out == 0.5).all()


@given(st.integers(1, 4), st.integers(0, 3), st.integers(-2, 1))
def test_a_buffer_drops_as_much_as_comes_in(length: int, new: int, axis: int) -> None:
    buffer, data = (np.moveaxis(numbers(n, 2, seed=n), 0, axis) for n in (length, min(new, length)))
    out = evaluated(nn.fifo_buffer(X, Y, axis), data, buffer)
    rows = np.concatenate((np.moveaxis(buffer, axis, 0), np.moveaxis(data, axis, 0)))
    same(np.moveaxis(out, axis, 0), rows[-length:])


def test_dimensions_that_are_not_known_stay_so() -> None:
    data = TensorType((Any(), 8, Any(), 6))
    width = [(0, 0), (1, 2), (0, 1), (0, 0)]
    assert inferred(nn.pad(X, width), data, None) == [None, None, TensorType((Any(), 11, Any(), 6))]
    assert inferred(nn.mirror_pad(X, width), data) == [None, TensorType((Any(), 11, Any(), 6))]
    assert inferred(nn.depth_to_space(X, 2), data) == [None, TensorType((Any(), 2, Any(), 12))]
    assert inferred(nn.space_to_depth(X, 2), data) == [None, TensorType((Any(), 32, Any(), 3))]
    assert inferred(nn.pad(X, width), None, TensorType(())) is None


@pytest.mark.parametrize(
    ("call", "types", "told"),
    [
        (
            nn.pad(X, [[1, 1]]),
            (TensorType((2, 3)), None),
            "nn.pad: pad_width must be a pair for each dimension of the Tensor[(2, 3), float32], not ((1, 1),)",
        ),
        (
            nn.pad(X, [[1, -4]]),
            (TensorType((2,)), None),
            "nn.pad: pad_width cuts off more than there is of the Tensor[(2), float32]: ((1, -4),)",
        ),
        (
            nn.mirror_pad(X, [[1, -1]]),
            (TensorType((2,)),),
            "nn.mirror_pad: pad_width must not be negative: ((1, -1),); cut off with strided_slice",
        ),
        (
            nn.pad(X, [[1, 1]], 0, "edges"),
            (TensorType((2,)), None),
            "nn.pad: there is no mode 'edges'; use one of ['constant', 'edge', 'reflect']",
        ),
        (
            nn.pad(X, [[1, 1]], Y),
            (TensorType((2,)), TensorType((1,))),
            "nn.pad: pad_value must be a scalar, but it is a Tensor[(1), float32]",
        ),
        (
            nn.depth_to_space(X, 2),
            (TensorType((1, 6, 1, 1)),),
            "nn.depth_to_space: the number of channels is 6, which 4 does not divide",
        ),
        (
            nn.depth_to_space(X, 2, mode="RCD"),
            (TensorType((1, 4, 1, 1)),),
            "nn.depth_to_space: mode must be DCR or CDR, not 'RCD'",
        ),
        (
            nn.space_to_depth(X, 2),
            (TensorType((1, 6, 2, 3)),),
            "nn.space_to_depth: the width is 3, which 2 does not divide",
        ),
        (
            nn.space_to_batch_nd(X, [2], [[0, 0]]),
            (TensorType((1, 3)),),
            "nn.space_to_batch_nd: a padded dimension is 3, which 2 does not divide",
        ),
        (
            nn.batch_to_space_nd(X, [2], [[2, 2]]),
            (TensorType((2, 2)),),
            "nn.batch_to_space_nd: the crops ((2, 2),) leave nothing of [4]",
        ),
        (
            nn.fifo_buffer(X, Y, 0),
            (TensorType((3, 2)), TensorType((2, 2))),
            "nn.fifo_buffer: the buffer Tensor[(2, 2), float32] cannot take 3 elements along axis 0 at once",
        ),
    ],
)
def test_what_does_not_fit_is_told(call: Call, types: tuple[TensorType | None, ...], told: str) -> None:
    assert refused(call, *types) == told
