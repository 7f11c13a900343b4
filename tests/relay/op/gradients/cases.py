"""Calls of operators whose gradients are tested, with values of their arguments."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from apass.relay import op
from apass.relay.expr import Call, Expr, TupleGetItem
from apass.relay.ir.expr import Op, Tuple, TupleWrapper, const
from apass.relay.ir.ndarray import Array
from apass.relay.op import nn

__all__ = ["CASES", "Case"]


Real: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """An expression of variables, and the values of the variables."""

    build: Callable[..., Expr]
    inputs: tuple[Array, ...]


@overload
def case(build: Callable[[Expr], Expr], inputs: tuple[Array]) -> Case: ...
@overload
def case(build: Callable[[Expr, Expr], Expr], inputs: tuple[Array, Array]) -> Case: ...
@overload
def case(build: Callable[[Expr, Expr, Expr], Expr], inputs: tuple[Array, Array, Array]) -> Case: ...
@overload
def case(
    build: Callable[[Expr, Expr, Expr, Expr, Expr], Expr], inputs: tuple[Array, Array, Array, Array, Array]
) -> Case: ...
def case(build: Callable[..., Expr], inputs: tuple[Array, ...]) -> Case:
    """Return a case of an expression of as many variables as there are inputs."""
    return Case(build, inputs)


def real(*shape: int, seed: int = 0, low: float = -2, high: float = 2) -> Real:
    """Return numbers between two bounds."""
    return np.random.default_rng(seed).uniform(low, high, shape)


def positive(*shape: int, seed: int = 1) -> Real:
    return real(*shape, seed=seed, low=0.5, high=2)


def whole(*numbers: int, dtype: str = "int32") -> Array:
    return np.array(numbers, dtype)


def call(name: str, *args: Expr, **attrs: object) -> Call:
    """Return a call of an operator, also of one without a function that builds it."""
    operator = Op.get(name)
    return Call(operator, args, operator.make_attrs(**attrs))


def _fields(wrapper: TupleWrapper) -> Expr:
    return wrapper.astuple()


def _convolutions() -> Iterator[tuple[str, Case]]:
    data, weight = real(2, 4, 7, 6), real(6, 4, 3, 2, seed=2)
    yield "nn.conv2d", case(lambda x, w: nn.conv2d(x, w), (data, weight))
    yield (
        "nn.conv2d",
        case(
            lambda x, w: nn.conv2d(x, w, strides=(2, 3), padding=(1, 0, 2, 1), dilation=(2, 1)),
            (data, weight),
        ),
    )
    # TVM pairs wrong channels if there are several groups of several channels.
    grouped = real(6, 2, 3, 2, seed=3)
    yield "nn.conv2d", case(lambda x, w: nn.conv2d(x, w, strides=2, padding=1, groups=2), (data, grouped))
    depthwise = real(4, 2, 3, 3, seed=3)
    yield "nn.conv2d", case(lambda x, w: nn.conv2d(x, w, groups=4, padding=1), (data[:1], depthwise))
    yield "nn.conv2d", case(lambda x, w: nn.conv2d(x, w, groups=4), (data, real(4, 1, 3, 3, seed=3)))
    yield (
        "nn.conv2d",
        case(
            lambda x, w: nn.conv2d(x, w, strides=2, data_layout="NHWC", kernel_layout="HWIO", out_layout="NCHW"),
            (real(1, 5, 6, 3), real(2, 3, 3, 4, seed=3)),
        ),
    )
    yield "nn.conv1d", case(lambda x, w: nn.conv1d(x, w, 2, 1), (real(2, 3, 8), real(4, 3, 3, seed=3)))
    yield (
        "nn.conv3d",
        case(lambda x, w: nn.conv3d(x, w, (1, 2, 1), 1), (real(1, 2, 3, 4, 3), real(2, 2, 2, 3, 2, seed=3))),
    )
    yield (
        "nn.conv1d_transpose",
        case(lambda x, w: nn.conv1d_transpose(x, w, 2, 1, output_padding=1), (real(2, 3, 4), real(3, 2, 3, seed=3))),
    )
    yield (
        "nn.conv2d_transpose",
        case(
            lambda x, w: nn.conv2d_transpose(x, w, (2, 1), 1, (1, 2), groups=2, output_padding=(1, 0)),
            (real(2, 4, 3, 4), real(4, 3, 3, 2, seed=3)),
        ),
    )
    # More padding at the end than a stride.
    yield (
        "nn.conv2d_transpose",
        case(
            lambda x, w: nn.conv2d_transpose(x, w, output_padding=(2, 1), data_layout="NHWC"),
            (real(1, 2, 3, 2), real(2, 3, 2, 2, seed=3)),
        ),
    )
    yield (
        "nn.conv3d_transpose",
        case(lambda x, w: nn.conv3d_transpose(x, w, 2), (real(1, 2, 2, 2, 2), real(2, 1, 2, 1, 2, seed=3))),
    )


def _global_pools(name: str) -> Iterator[tuple[str, Case]]:
    image = real(2, 2, 6, 5)
    pool: Callable[..., Expr] = getattr(nn, name)
    yield f"nn.{name}", case(lambda x: pool(x), (image,))
    yield f"nn.{name}", case(lambda x: pool(x, "NHWC", "NCHW"), (image,))


def _means_of_windows(pad: bool) -> Iterator[tuple[str, Case]]:
    yield (
        "nn.avg_pool1d",
        case(lambda x: nn.avg_pool1d(x, 3, 2, 1, 1, count_include_pad=pad), (real(1, 2, 6),)),
    )
    yield (
        "nn.avg_pool3d",
        case(
            lambda x: nn.avg_pool3d(x, 2, 2, 1, (0, 1, 0), ceil_mode=True, count_include_pad=pad),
            (real(1, 1, 3, 4, 2),),
        ),
    )


def _window_pools(name: str) -> Iterator[tuple[str, Case]]:
    image = real(2, 2, 6, 5)
    pool: Callable[..., Expr] = getattr(nn, name)
    yield f"nn.{name}", case(lambda x: pool(x, 3, 2, 1, (1, 0, 2, 1), ceil_mode=True), (image,))
    yield f"nn.{name}", case(lambda x: pool(x, (2, 1), 1, (2, 1), (1, 0)), (image,))
    yield f"nn.{name}", case(lambda x: pool(x, 2, 3, layout="NHWC", out_layout="NCHW"), (image,))


def _pools() -> Iterator[tuple[str, Case]]:
    image = real(2, 2, 6, 5)
    for name in ("max_pool2d", "avg_pool2d"):
        yield from _window_pools(name)
    yield "nn.avg_pool2d", case(lambda x: nn.avg_pool2d(x, 3, 2, padding=1, count_include_pad=True), (image,))
    yield "nn.avg_pool2d_grad", case(lambda g, x: nn.avg_pool2d_grad(g, x, 2, 2), (real(2, 2, 3, 2), image))
    yield "nn.max_pool1d", case(lambda x: nn.max_pool1d(x, 3, 2, 1, (1, 0)), (real(2, 3, 7),))
    yield "nn.max_pool1d", case(lambda x: nn.max_pool1d(x, 2, layout="NWC", out_layout="NCW"), (real(2, 4, 3),))
    volume = real(2, 2, 4, 5, 3)
    yield "nn.max_pool3d", case(lambda x: nn.max_pool3d(x, (2, 3, 1), (2, 1, 2), 1, (1, 0, 0)), (volume,))
    yield "nn.max_pool3d", case(lambda x: nn.max_pool3d(x, 2, 2, (1, 2, 1), (1, 1, 0), ceil_mode=True), (volume,))
    yield "nn.max_pool3d", case(lambda x: nn.max_pool3d(x, 2, layout="NDHWC", out_layout="NCDHW"), (volume,))
    for pad in (False, True):
        yield from _means_of_windows(pad)
    for name in ("global_max_pool2d", "global_avg_pool2d"):
        yield from _global_pools(name)
    yield from _largest_in_bins()
    yield "nn.adaptive_avg_pool1d", case(lambda x: nn.adaptive_avg_pool1d(x, 3, "NWC"), (real(2, 5, 2),))
    yield "nn.adaptive_avg_pool2d", case(lambda x: nn.adaptive_avg_pool2d(x, (4, 2)), (image,))
    yield "nn.adaptive_avg_pool3d", case(lambda x: nn.adaptive_avg_pool3d(x, 2), (real(1, 2, 3, 2, 4),))


def _largest_in_bins() -> Iterator[tuple[str, Case]]:
    image = real(2, 2, 6, 5)
    yield "nn.adaptive_max_pool1d", case(lambda x: nn.adaptive_max_pool1d(x, 3, "NWC"), (real(2, 5, 2),))
    yield "nn.adaptive_max_pool2d", case(lambda x: nn.adaptive_max_pool2d(x, (4, 2)), (image,))
    yield "nn.adaptive_max_pool2d", case(lambda x: nn.adaptive_max_pool2d(x, 1, "NHWC", "NCHW"), (image,))
    yield "nn.adaptive_max_pool2d", case(lambda x: nn.adaptive_max_pool2d(x), (image,))
    yield "nn.adaptive_max_pool3d", case(lambda x: nn.adaptive_max_pool3d(x, (2, 3, 1)), (real(1, 2, 3, 4, 5),))


def _norms_with(flag: bool) -> Iterator[tuple[str, Case]]:
    data, gamma, beta = real(2, 4, 3), real(4, seed=4), real(4, seed=5)
    yield (
        "nn.layer_norm",
        case(
            lambda x, g, b: nn.layer_norm(x, g, b, axis=1, epsilon=0.1, center=flag, scale=flag),
            (data, gamma, beta),
        ),
    )
    yield (
        "nn.instance_norm",
        case(
            lambda x, g, b: nn.instance_norm(x, g, b, epsilon=0.1, center=flag, scale=not flag),
            (data, gamma, beta),
        ),
    )
    yield (
        "nn.group_norm",
        case(
            lambda x, g, b: nn.group_norm(x, g, b, 2, epsilon=0.1, center=flag, scale=flag),
            (data, gamma, beta),
        ),
    )
    yield (
        "nn.batch_norm",
        case(
            lambda x, g, b, m, v: _fields(nn.batch_norm(x, g, b, m, v, epsilon=0.1, center=flag, scale=flag)),
            (data, gamma, beta, real(4, seed=6), positive(4)),
        ),
    )


def _norms() -> Iterator[tuple[str, Case]]:
    data, gamma, beta = real(2, 4, 3), real(4, seed=4), real(4, seed=5)
    for flag in (True, False):
        yield from _norms_with(flag)
    yield "nn.instance_norm", case(lambda x, g, b: nn.instance_norm(x, g, b), (real(3, 4), gamma, beta))
    yield "nn.l2_normalize", case(lambda x: nn.l2_normalize(x, 0.5, [1]), (data,))
    yield "nn.l2_normalize", case(lambda x: nn.l2_normalize(x, 100), (data,))
    yield "nn.lrn", case(lambda x: nn.lrn(x, 3, alpha=0.3), (data,))
    yield "nn.lrn", case(lambda x: nn.lrn(x, 4, alpha=0.3), (data,))


def _transposed_products(a: bool, b: bool) -> Iterator[tuple[str, Case]]:
    left, right = real(3, 2) if a else real(2, 3), real(4, 3, seed=2) if b else real(3, 4, seed=2)
    yield "nn.matmul", case(lambda x, y: nn.matmul(x, y, transpose_a=a, transpose_b=b), (left, right))
    batch = (np.stack([left, left + 1]), right[np.newaxis])
    yield (
        "nn.batch_matmul",
        case(lambda x, y: nn.batch_matmul(x, y, transpose_a=a, transpose_b=b), batch),
    )


def _products() -> Iterator[tuple[str, Case]]:
    yield "nn.dense", case(nn.dense, (real(2, 3), real(4, 3, seed=2)))
    yield "nn.dense", case(lambda x, w: nn.dense(x, w, units=4), (real(2, 5, 3), real(4, 3, seed=2)))
    yield "nn.dense", case(nn.dense, (real(3), real(4, 3, seed=2)))
    yield "nn.matmul", case(nn.matmul, (real(2, 2, 3), real(3, 4, seed=2)))
    for a, b in ((False, False), (True, False), (False, True), (True, True)):
        yield from _transposed_products(a, b)
    yield "nn.bias_add", case(lambda x, b: nn.bias_add(x, b, -1), (real(2, 3, 4), real(4)))
    yield "nn.fifo_buffer", case(lambda x, b: nn.fifo_buffer(x, b, 1), (real(2, 1), real(2, 3, seed=2)))
    yield "nn.fifo_buffer", case(lambda x, b: nn.fifo_buffer(x, b, 0), (real(2, 3), real(2, 3, seed=2)))
    yield "nn.bias_add", case(lambda x, b: nn.bias_add(x, b, 0), (real(3), real(3, seed=2)))


def _packed_products() -> Iterator[tuple[str, Case]]:
    blocks = real(2, 3, 2, seed=2)
    yield "nn.contrib_dense_pack", case(lambda x, w: nn.contrib_dense_pack(x, w, "NC2n"), (real(2, 3), blocks))
    image, weight = real(1, 2, 4, 5, 2), real(3, 2, 3, 2, 2, 2, seed=2)
    layouts = {"data_layout": "NCHW2c", "kernel_layout": "OIHW2i2o", "out_layout": "NCHW2c"}
    yield (
        "nn.contrib_conv2d_NCHWc",
        case(lambda x, w: call("nn.contrib_conv2d_NCHWc", x, w, strides=(2, 1), **layouts), (image, weight)),
    )
    depthwise = {**layouts, "kernel_layout": "OIHW1i2o"}
    yield (
        "nn.contrib_depthwise_conv2d_NCHWc",
        case(
            lambda x, w: call("nn.contrib_depthwise_conv2d_NCHWc", x, w, groups=4, padding=(1, 1), **depthwise),
            (image, real(2, 1, 3, 3, 1, 2, seed=2)),
        ),
    )


def _sums_of_products() -> Iterator[tuple[str, Case]]:
    a, b, c = real(2, 3), real(3, 4, seed=2), real(4, 2, seed=3)
    yield "einsum", case(lambda x, y: op.einsum([x, y], "ij,jk->ik"), (a, b))
    yield "einsum", case(lambda x, y: op.einsum([x, y], "ij,jk"), (a, b))
    yield "einsum", case(lambda x, y, z: op.einsum([x, y, z], "ij,jk,ki->j"), (a, b, c))
    yield "einsum", case(lambda x: op.einsum([x], "ijk->j"), (real(2, 3, 4),))
    yield "einsum", case(lambda x: op.einsum([x], "ii->i"), (real(3, 3),))
    yield "einsum", case(lambda x, y: op.einsum([x, y], "iij,j->"), (real(3, 3, 2), real(2, seed=2)))
    yield "einsum", case(lambda x, y: op.einsum([x, y], "...ij,...jk->...ik"), (real(2, 2, 3), b))
    yield "einsum", case(lambda x, y: op.einsum([x, y], "...i,i...->..."), (real(1, 4, 3), real(3, 2, 1, seed=2)))
    yield "einsum", case(lambda x, y: op.einsum([x, y], "ij,ij->i"), (real(2, 1), real(2, 3, seed=2)))


def _reduced_losses(reduction: str) -> Iterator[tuple[str, Case]]:
    labels = np.array([[0, 3], [2, -100], [1, 1]])
    yield (
        "nn.nll_loss",
        case(
            lambda x, t, w: nn.nll_loss(x, t, w, reduction),
            (real(3, 4, 2), labels, positive(4)),
        ),
    )


def _losses() -> Iterator[tuple[str, Case]]:
    probabilities, targets = positive(3, 4), positive(3, 4, seed=2)
    yield "nn.cross_entropy", case(nn.cross_entropy, (probabilities, targets))
    yield "nn.cross_entropy_with_logits", case(nn.cross_entropy_with_logits, (real(3, 4), targets))
    for reduction in ("none", "sum", "mean"):
        yield from _reduced_losses(reduction)


def _softmaxes(name: str) -> Iterator[tuple[str, Case]]:
    data = real(2, 3, 4)
    yield f"nn.{name}", case(lambda x: getattr(nn, name)(x, 1), (data,))


def _activations() -> Iterator[tuple[str, Case]]:
    data = real(2, 3, 4)
    yield "nn.relu", case(nn.relu, (data,))
    yield "nn.leaky_relu", case(lambda x: nn.leaky_relu(x, 0.2), (data,))
    yield "nn.prelu", case(nn.prelu, (data, real(3, seed=3)))
    for name in ("softmax", "fast_softmax", "log_softmax"):
        yield from _softmaxes(name)
    yield "nn.dropout", case(lambda x: nn.dropout_raw(x), (data,))
    yield "nn.batch_flatten", case(nn.batch_flatten, (data,))


def _depth_moves(mode: str) -> Iterator[tuple[str, Case]]:
    image = real(2, 4, 4, 2)
    yield "nn.depth_to_space", case(lambda x: nn.depth_to_space(x, 2, mode=mode), (image,))
    yield (
        "nn.depth_to_space",
        case(lambda x: nn.depth_to_space(x, 2, "NHWC", mode), (real(1, 2, 3, 8),)),
    )


def _padding(mode: str) -> tuple[str, Case]:
    return "nn.pad", case(lambda x, v: nn.pad(x, [(1, 2), (-1, 1)], v, mode), (real(3, 4), real()))


def _mirror(mode: str) -> tuple[str, Case]:
    return "nn.mirror_pad", case(lambda x: nn.mirror_pad(x, [(1, 2), (0, 2)], mode), (real(3, 4),))


def _upsampling(method: str) -> tuple[str, Case]:
    return "nn.upsampling", case(lambda x: nn.upsampling(x, 2, 1.5, method=method), (real(1, 2, 3, 4),))


def _cubic(mode: str) -> tuple[str, Case]:
    return "image.resize2d", case(lambda x: op.image.resize2d(x, (5, 3), "NCHW", "cubic", mode), (real(1, 2, 3, 4),))


def _resizes() -> Iterator[tuple[str, Case]]:
    for method in ("nearest_neighbor", "bilinear", "bicubic"):
        yield _upsampling(method)
    yield "nn.upsampling", case(lambda x: nn.upsampling(x, 2, 2, "NHWC", "bilinear", True), (real(1, 3, 2, 2),))
    volume = real(1, 1, 2, 2, 3)
    yield "nn.upsampling3d", case(lambda x: nn.upsampling3d(x, 2, 1, 2, method="trilinear"), (volume,))
    for mode in ("half_pixel", "align_corners", "asymmetric"):
        yield _cubic(mode)
    yield "image.resize2d", case(lambda x: op.image.resize2d(x, (2, 7), "NHWC", cubic_exclude=1), (real(1, 3, 4, 2),))
    yield "image.resize1d", case(lambda x: op.image.resize1d(x, (5,), method="linear"), (real(2, 1, 3),))
    yield "image.resize3d", case(lambda x: op.image.resize3d(x, (3, 2, 4), method="linear"), (volume,))


def _moves() -> Iterator[tuple[str, Case]]:
    image = real(2, 4, 4, 2)
    yield "nn.pad", case(lambda x, v: nn.pad(x, [(1, 2), (-1, 1)], v), (real(2, 3), real()))
    for mode in ("edge", "reflect"):
        yield _padding(mode)
    for mode in ("SYMMETRIC", "REFLECT"):
        yield _mirror(mode)
    yield "nn.space_to_depth", case(lambda x: nn.space_to_depth(x, 2, "NHWC"), (image,))
    for mode in ("DCR", "CDR"):
        yield from _depth_moves(mode)
    yield "nn.space_to_batch_nd", case(lambda x: nn.space_to_batch_nd(x, [2, 3], [(0, 2), (1, 1)]), (image,))
    yield "nn.batch_to_space_nd", case(lambda x: nn.batch_to_space_nd(x, [2], [(1, 2)]), (image,))
    yield "nn.dilate", case(lambda x: nn.dilate(x, [2, 3]), (real(2, 3),))
    yield "contrib_reverse_reshape", case(lambda x: op.reverse_reshape(x, (-1, 0)), (real(2, 3, 4),))
    # A slice with a negative step that reaches the first element.
    yield "strided_slice", case(lambda x: op.strided_slice(x, [4], [-6], [-2], axes=[1]), (real(2, 5),))
    yield "strided_slice", case(lambda x: op.strided_slice(x, [1, -2], [2, -1], slice_mode="size"), (real(4, 5),))
    yield "strided_slice", case(lambda x: op.strided_slice(x, [2], [1]), (real(4),))
    yield (
        "strided_set",
        case(
            lambda x, v: op.strided_set(x, v, [3, 0], [0, 4], [-2, 3]),
            (real(4, 4), real(2, 2, seed=2)),
        ),
    )
    yield "concatenate", case(lambda x: op.concatenate([x], 0), (real(3),))
    yield "split", case(lambda x: _fields(op.split(x, [1, 1], -1)), (real(2, 3),))
    yield "meshgrid", case(lambda x, y, z: _fields(op.meshgrid([x, y, z], "xy")), (real(2), real(), real(3)))
    yield "meshgrid", case(lambda x: _fields(op.meshgrid([x])), (real(2),))


def _computed_shapes() -> Iterator[tuple[str, Case]]:
    data = real(2, 3)
    yield "dyn.reshape", case(lambda x, s: op.reshape(x, s), (data, whole(3, -1)))
    yield "dyn.broadcast_to", case(lambda x, s: op.broadcast_to(x, s), (data, whole(4, 2, 3)))
    yield "dyn.squeeze", case(lambda x, s: op.squeeze(x, s), (real(2, 1, 3), whole(1)))
    yield "dyn.expand_dims", case(lambda x, s: op.expand_dims(x, s), (data, np.array(1)))
    yield "dyn.zeros", case(lambda s: op.zeros(s, "float64"), (whole(2, 3),))
    yield "dyn.ones", case(lambda s: op.ones(s, "float64"), (whole(2, 3),))
    yield "dyn.full", case(lambda x, s: op.full(x, s), (real(), whole(2, 3)))
    yield "collapse_sum_to", case(lambda x, s: op.collapse_sum_to(x, s), (data, whole(3)))
    yield "arange", case(lambda a, b, c: op.arange(a, b, c, "float64"), (np.array(0.25), np.array(2.6), np.array(0.75)))
    yield "shape_of", case(lambda x: call("shape_of", x, dtype="int32"), (data,))
    yield "ndarray_size", case(lambda x: call("ndarray_size", x, dtype="int32"), (data,))


def _takes(mode: str) -> Iterator[tuple[str, Case]]:
    data = real(3, 4)
    yield (
        "take",
        case(lambda x, i: op.take(x, i, -1, mode=mode), (data, np.array([[5, 0], [0, -1]]))),
    )
    yield "take", case(lambda x, i: op.take(x, i, mode=mode), (data, np.array([13, 2, 2])))


def _largest(ret_type: str) -> Iterator[tuple[str, Case]]:
    yield "topk", case(lambda x: call("topk", x, k=0, axis=0, ret_type=ret_type), (real(3, 4),))


def _indices() -> Iterator[tuple[str, Case]]:
    data = real(3, 4)
    for mode in ("clip", "wrap"):
        yield from _takes(mode)
    yield "take", case(lambda x, i: op.take(x, i, 0, mode="fast"), (data, np.array(1)))
    # With two equal values, TVM compares elements of the result with them.
    yield (
        "one_hot",
        case(lambda i, x, y: op.one_hot(i, x, y, 3, 0, "float64"), (whole(0, 2), np.array(1.0), np.array(1.0))),
    )
    yield "sort", case(lambda x: op.sort(x, 0, False), (data,))
    for ret_type in ("values", "indices"):
        yield from _largest(ret_type)
    yield "topk", case(lambda x: TupleGetItem(call("topk", x, k=2, dtype="float32"), 0), (data,))
    yield "topk", case(lambda x: call("topk", x, k=2, axis=0, is_ascend=True, dtype="uint8"), (data,))
    yield "scatter_nd", case(lambda x, i, u: op.scatter_nd(x, i, u), (data, whole(2, 0)[None], real(2, 4, seed=2)))
    two = const(np.array([[0, -1], [2, 1]]))
    yield "adv_index", case(lambda x, i: op.adv_index([x, i, two]), (real(3, 4, 2), np.array([[-1], [0]])))
    yield "adv_index", case(lambda x: op.adv_index([x, const(np.array([1, 1]))]), (data,))
    yield from _sparse_tensors()
    yield "matrix_set_diag", case(op.matrix_set_diag, (real(2, 3, 4), real(2, 3, seed=2)))
    yield "matrix_set_diag", case(lambda x, d: op.matrix_set_diag(x, d, (-1, 2)), (data, real(4, 3, seed=2)))
    yield "searchsorted", case(op.searchsorted, (np.array([0.0, 1, 2]), real(2)))
    yield "invert_permutation", case(lambda x: call("invert_permutation", x), (whole(1, 2, 0),))


def _sparse_tensors() -> Iterator[tuple[str, Case]]:
    def dense(shape: tuple[int, ...]) -> Callable[[Expr, Expr, Expr], Expr]:
        return lambda i, v, d: op.sparse_to_dense(i, shape, v, d)

    default = np.array(0.5)
    rows = np.array([[0, 1], [2, 0], [0, 1]])
    yield "sparse_to_dense", case(dense((3, 2)), (rows, real(3), default))
    yield "sparse_to_dense", case(dense((4,)), (whole(2, 0), np.array(1.5), default))
    yield "sparse_to_dense", case(dense((4,)), (np.array(3), np.array(1.5), default))


def _variances(unbiased: bool) -> Iterator[tuple[str, Case]]:
    x = real(2, 3)
    yield (
        "variance",
        case(
            lambda x, m: call("variance", x, m, axis=(1,), unbiased=unbiased),
            (x, real(2, 1, seed=3)),
        ),
    )


def _of_positive_values(name: str) -> Iterator[tuple[str, Case]]:
    yield name, case(getattr(op, name), (positive(2, 3),))


def _of_fractions(name: str) -> Iterator[tuple[str, Case]]:
    yield name, case(getattr(op, name), (real(2, 3, low=-0.9, high=0.9),))


def _products_of_scans(exclusive: bool) -> Iterator[tuple[str, Case]]:
    some_zeros = np.array([[1.5, 0, -2, 3], [0.5, -1, 2, 3], [0, 2, 0, 1]])
    for axis in (None, 0, -1):
        yield "cumprod", case(partial(op.cumprod, axis=axis, exclusive=exclusive), (some_zeros,))
    yield "cumprod", case(partial(op.cumprod, axis=0, exclusive=exclusive), (positive(4, 2),))


def _values() -> Iterator[tuple[str, Case]]:
    x = real(2, 3, low=1.1)
    yield "acosh", case(op.acosh, (x,))
    for name in ("acos", "asin", "atanh"):
        yield from _of_fractions(name)
    for name in ("log", "log2", "log10", "sqrt", "rsqrt"):
        yield from _of_positive_values(name)
    yield "power", case(op.power, (positive(2, 3), real(3, seed=2)))
    yield "power", case(lambda x: op.power(x, const(3.0, "float64")), (real(2, 3),))
    # TVM truncates the bounds to whole numbers.
    yield "clip", case(lambda x: op.clip(x, -0.75, 0.5), (real(20),))
    yield "prod", case(lambda x: op.prod(x, [0]), (np.array([[1.0, 0, 0, 2], [3.0, 2, 0, 0.5]]),))
    for exclusive in (False, True):
        yield from _products_of_scans(exclusive)
    yield "annotation.checkpoint", case(op.annotation.checkpoint, (x,))
    yield "annotation.checkpoint", case(lambda x, y: op.annotation.checkpoint(Tuple([x * y, x])), (x, x + 1))
    # The mean is an argument of its own.
    for unbiased in (False, True):
        yield from _variances(unbiased)


def _all() -> dict[str, list[Case]]:
    sources = (
        *(_convolutions, _pools, _norms, _products, _packed_products, _sums_of_products, _losses, _activations),
        *(_moves, _resizes, _computed_shapes, _indices, _values),
    )
    cases: dict[str, list[Case]] = {}
    for source in sources:
        for name, case in source():
            cases.setdefault(name, []).append(case)
    return cases


CASES: Final[Mapping[str, list[Case]]] = _all()
"""The cases by the name of the operator."""
