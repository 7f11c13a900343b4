"""Functions have the parameters, their order and the defaults of TVM 0.8."""

import inspect
from types import ModuleType

import pytest

from apass.relay import op
from apass.relay.expr import OPS
from apass.relay.ir.attrs import Attrs
from apass.relay.op import algorithm, reduce, tensor, transform
from apass.relay.op.reduction import statistics

_SIGNATURES = """
abs(data)
adv_index(inputs)
all(data, axis=None, keepdims=False, exclude=False)
arange(start, stop=None, step=None, dtype='float32')
argmax(data, axis=None, keepdims=False, exclude=False, select_last_index=False)
argsort(data, axis=-1, is_ascend=1, dtype='int32')
argwhere(condition)
broadcast_to(data, shape)
broadcast_to_like(data, broadcast_type)
cast(data, dtype)
cast_like(data, dtype_like)
clip(a, a_min, a_max)
collapse_sum_like(data, collapse_type)
collapse_sum_to(data, shape)
concatenate(data, axis)
cumsum(data, axis=None, dtype=None, exclusive=None)
device_copy(data, src_dev, dst_dev)
expand_dims(data, axis, num_newaxis=1)
fixed_point_multiply(data, multiplier, shift)
full(fill_value, shape=(), dtype='')
full_like(data, fill_value)
gather(data, axis, indices)
gather_nd(data, indices, batch_dims=0, index_rank=None)
layout_transform(data, src_layout, dst_layout)
less(lhs, rhs)
logsumexp(data, axis=None, keepdims=False)
matrix_set_diag(data, diagonal, k=0, align='RIGHT_LEFT')
mean_std(data, axis=None, keepdims=False, exclude=False)
mean_variance(data, axis=None, keepdims=False, exclude=False, unbiased=False)
meshgrid(data, indexing='ij')
ndarray_size(data, dtype='int32')
one_hot(indices, on_value, off_value, depth, axis, dtype)
repeat(data, repeats, axis)
reshape(data, newshape, allowzero=False)
reshape_like(data, shape_like, lhs_begin=0, lhs_end=None, rhs_begin=0, rhs_end=None)
reverse(data, axis)
reverse_reshape(data, newshape)
reverse_sequence(data, seq_lengths, seq_axis=1, batch_axis=0)
scatter(data, indices, updates, axis)
scatter_nd(data, indices, updates, mode='update')
searchsorted(sorted_sequence, values, right=False, dtype='int32')
sequence_mask(data, valid_length, mask_value=0, axis=0)
shape_of(data, dtype='int32')
slice_like(data, shape_like, axes=None)
sort(data, axis=-1, is_ascend=1)
sparse_to_dense(sparse_indices, output_shape, sparse_values, default_value=0)
split(data, indices_or_sections, axis=0)
squeeze(data, axis=None)
stack(data, axis)
std(data, axis=None, keepdims=False, exclude=False, unbiased=False)
strided_set(data, v, begin, end, strides=None)
strided_slice(data, begin, end, strides=None, axes=None, slice_mode='end')
sum(data, axis=None, keepdims=False, exclude=False)
take(data, indices, axis=None, batch_dims=0, mode='clip')
tile(data, reps)
topk(data, k=1, axis=-1, ret_type='both', is_ascend=False, dtype='int32')
transpose(data, axes=None)
unique(data, is_sorted=True, return_counts=False)
unravel_index(indices, shape)
variance(data, axis=None, keepdims=False, exclude=False, unbiased=False)
where(condition, x, y)
zeros(shape, dtype)
"""

_ROOMS = """
nn.adaptive_avg_pool1d(data, output_size=None, layout='NCW', out_layout='')
nn.adaptive_avg_pool2d(data, output_size=None, layout='NCHW', out_layout='')
nn.adaptive_avg_pool3d(data, output_size=None, layout='NCDHW', out_layout='')
nn.adaptive_max_pool1d(data, output_size=None, layout='NCW', out_layout='')
nn.adaptive_max_pool2d(data, output_size=None, layout='NCHW', out_layout='')
nn.adaptive_max_pool3d(data, output_size=None, layout='NCDHW', out_layout='')
nn.avg_pool1d(data, pool_size=(1,), strides=(1,), dilation=(1,), padding=(0,), layout='NCW', out_layout='',
    ceil_mode=False, count_include_pad=False)
nn.avg_pool2d(data, pool_size=(1, 1), strides=(1, 1), dilation=(1, 1), padding=(0, 0), layout='NCHW', out_layout='',
    ceil_mode=False, count_include_pad=False)
nn.avg_pool3d(data, pool_size=(1, 1, 1), strides=(1, 1, 1), dilation=(1, 1, 1), padding=(0, 0, 0), layout='NCDHW',
    out_layout='', ceil_mode=False, count_include_pad=False)
nn.batch_flatten(data)
nn.batch_matmul(tensor_a, tensor_b, out_dtype='', transpose_a=False, transpose_b=True)
nn.batch_norm(data, gamma, beta, moving_mean, moving_var, axis=1, epsilon=1e-05, center=True, scale=True)
nn.batch_to_space_nd(data, block_shape, crops)
nn.bias_add(data, bias, axis=1)
nn.contrib_conv2d_nchwc(data, kernel, strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, channels=None,
    kernel_size=None, data_layout='NCHW8c', kernel_layout='OIHW', out_layout='', out_dtype='')
nn.contrib_dense_pack(data, weight, weight_layout='NC', units=None, out_dtype='')
nn.contrib_depthwise_conv2d_nchwc(data, kernel, strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1,
    channels=None, kernel_size=None, data_layout='NCHW8c', kernel_layout='OIHW', out_layout='', out_dtype='')
nn.conv1d(data, weight, strides=1, padding=0, dilation=1, groups=1, channels=None, kernel_size=None,
    data_layout='NCW', kernel_layout='OIW', out_layout='', out_dtype='')
nn.conv1d_transpose(data, weight, strides=(1,), padding=(0,), dilation=(1,), groups=1, channels=None,
    kernel_size=None, data_layout='NCW', kernel_layout='OIW', out_layout='', output_padding=(0,), out_dtype='')
nn.conv2d(data, weight, strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, channels=None, kernel_size=None,
    data_layout='NCHW', kernel_layout='OIHW', out_layout='', out_dtype='')
nn.conv2d_transpose(data, weight, strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, channels=None,
    kernel_size=None, data_layout='NCHW', kernel_layout='IOHW', out_layout='', output_padding=(0, 0), out_dtype='')
nn.conv3d(data, weight, strides=(1, 1, 1), padding=(0, 0, 0), dilation=(1, 1, 1), groups=1, channels=None,
    kernel_size=None, data_layout='NCDHW', kernel_layout='OIDHW', out_layout='', out_dtype='')
nn.conv3d_transpose(data, weight, strides=(1, 1, 1), padding=(0, 0, 0), dilation=(1, 1, 1), groups=1, channels=None,
    kernel_size=None, data_layout='NCDHW', kernel_layout='OIDHW', out_layout='', output_padding=(0, 0, 0),
    out_dtype='')
nn.cross_entropy(predictions, targets)
nn.cross_entropy_with_logits(predictions, targets)
nn.deformable_conv2d(data, offset, weight, strides=(1, 1), padding=(0, 0), dilation=(1, 1), deformable_groups=1,
    groups=1, channels=None, kernel_size=None, data_layout='NCHW', kernel_layout='OIHW', out_layout='',
    out_dtype='')
nn.dense(data, weight, units=None, out_dtype='')
nn.depth_to_space(data, block_size, layout='NCHW', mode='DCR')
nn.dilate(data, strides, dilation_value=0.0)
nn.dropout(data, rate=0.5)
nn.dropout_raw(data, rate=0.5)
nn.fast_softmax(data, axis=-1)
nn.fifo_buffer(data, buffer, axis)
nn.global_avg_pool1d(data, layout='NCW', out_layout='')
nn.global_avg_pool2d(data, layout='NCHW', out_layout='')
nn.global_avg_pool3d(data, layout='NCDHW', out_layout='')
nn.global_max_pool1d(data, layout='NCW', out_layout='')
nn.global_max_pool2d(data, layout='NCHW', out_layout='')
nn.global_max_pool3d(data, layout='NCDHW', out_layout='')
nn.group_norm(data, gamma, beta, num_groups, axis=1, epsilon=1e-05, center=True, scale=True)
nn.instance_norm(data, gamma, beta, axis=1, epsilon=1e-05, center=True, scale=True)
nn.l2_normalize(data, eps, axis=None)
nn.layer_norm(data, gamma, beta, axis=-1, epsilon=1e-05, center=True, scale=True)
nn.leaky_relu(data, alpha=0.01)
nn.log_softmax(data, axis=-1)
nn.lrn(data, size=5, axis=1, bias=2, alpha=1e-05, beta=0.75)
nn.matmul(tensor_a, tensor_b, units=None, out_dtype='', transpose_a=False, transpose_b=False)
nn.max_pool1d(data, pool_size=(1,), strides=(1,), dilation=(1,), padding=(0,), layout='NCW', out_layout='',
    ceil_mode=False)
nn.max_pool2d(data, pool_size=(1, 1), strides=(1, 1), dilation=(1, 1), padding=(0, 0), layout='NCHW', out_layout='',
    ceil_mode=False)
nn.max_pool3d(data, pool_size=(1, 1, 1), strides=(1, 1, 1), dilation=(1, 1, 1), padding=(0, 0, 0), layout='NCDHW',
    out_layout='', ceil_mode=False)
nn.mirror_pad(data, pad_width, mode='SYMMETRIC')
nn.nll_loss(predictions, targets, weights, reduction='mean', ignore_index=-100)
nn.pad(data, pad_width, pad_value=0, pad_mode='constant')
nn.prelu(data, alpha, axis=1)
nn.relu(data)
nn.softmax(data, axis=-1)
nn.space_to_batch_nd(data, block_shape, paddings, pad_value=0)
nn.space_to_depth(data, block_size, layout='NCHW')
nn.upsampling(data, scale_h=1, scale_w=1, layout='NCHW', method='nearest_neighbor', align_corners=False)
nn.upsampling3d(data, scale_d=1, scale_h=1, scale_w=1, layout='NCDHW', method='nearest_neighbor',
    coordinate_transformation_mode='half_pixel')
image.resize1d(data, size, layout='NCW', method='linear', coordinate_transformation_mode='half_pixel',
    rounding_method='', cubic_alpha=-0.5, cubic_exclude=0, out_dtype=None)
image.resize2d(data, size, layout='NCHW', method='linear', coordinate_transformation_mode='half_pixel',
    rounding_method='', cubic_alpha=-0.5, cubic_exclude=0, out_dtype=None)
image.resize3d(data, size, layout='NCDHW', method='linear', coordinate_transformation_mode='half_pixel',
    rounding_method='', cubic_alpha=-0.5, cubic_exclude=0, out_dtype=None)
annotation.device_copy(data, src_dev, dst_dev)
annotation.on_device(data, device, is_fixed=False)
annotation.stop_fusion(data)
"""

_FIELDS = """
arange: start stop step dtype
argmax: axis keepdims select_last_index exclude
clip: a_min a_max
cumsum: axis dtype exclusive
expand_dims: axis num_newaxis
gather_nd: batch_dims index_rank
matrix_set_diag: k1 k2 super_diag_right_align sub_diag_right_align
one_hot: depth axis dtype
reshape_like: lhs_begin lhs_end rhs_begin rhs_end
sequence_mask: mask_value axis
split: indices_or_sections axis
strided_slice: begin end strides slice_mode axes
sum: axis keepdims exclude
take: batch_dims axis mode
topk: k axis ret_type is_ascend dtype
unique: sorted return_counts
variance: axis keepdims exclude unbiased
zeros: shape dtype
"""


def _plain(name: str, room: ModuleType = op) -> str:
    """Return the signature of a function without its annotations."""
    parameters = inspect.signature(getattr(room, name)).parameters.values()
    unannotated = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return f"{name}({', '.join(map(str, unannotated))})"


@pytest.mark.parametrize("line", _SIGNATURES.split("\n")[1:-1])
def test_function_has_the_signature_of_tvm(line: str) -> None:
    assert _plain(line.partition("(")[0]) == line


@pytest.mark.parametrize("line", _ROOMS.replace("\n    ", " ").split("\n")[1:-1])
def test_function_of_room_has_signature_of_tvm(line: str) -> None:
    room, _, name = line.partition("(")[0].partition(".")
    assert f"{room}.{_plain(name, getattr(op, room))}" == line


@pytest.mark.parametrize("line", _FIELDS.split("\n")[1:-1])
def test_attributes_have_the_order_of_tvm(line: str) -> None:
    name, _, fields = line.partition(": ")
    kind = OPS[name].attrs_type
    assert kind is not None
    assert issubclass(kind, Attrs)
    assert " ".join(inspect.signature(kind).parameters) == fields


def test_attributes_without_tvm_default_are_always_printed() -> None:
    data = tensor.zeros((2, 3), "float32")
    printed = [
        dict(call.attrs.non_default()) for call in (op.transpose(data), op.strided_slice(data, [0], [1])) if call.attrs
    ]
    assert printed == [{"axes": None}, {"begin": (0,), "end": (1,), "strides": (1,), "axes": None}]


def test_every_function_is_in_tvms_module() -> None:
    modules = [tensor, transform, reduce, statistics, algorithm]
    same = {name for module in modules for name in module.__all__ if getattr(op, name, None) is getattr(module, name)}
    others = {
        "FInferCorrectLayout",
        "FPrimalGradient",
        "InferCorrectLayoutOutput",
        "OpPattern",
        "Op",
        "algorithm",
        "annotation",
        "contrib",
        "register_op",
        "debug",
        "dyn",
        "dyn_nn",
        "fast_erf",
        "fast_exp",
        "fast_tanh",
        "get",
        "image",
        "nn",
        "op",
        "op_attrs",
        "reduce",
        "register",
        "register_alter_op_layout",
        "register_convert_op_layout",
        "register_legalize",
        "register_mixed_precision_conversion",
        "register_gradient",
        "register_infer_correct_layout",
        "register_op_attr",
        "register_pattern",
        "register_stateful",
        "tensor",
        "transform",
    }
    assert same | others == set(op.__all__)
