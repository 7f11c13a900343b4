"""Functions have the parameters, their order and the defaults of TVM 0.8."""

import inspect

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
device_copy(data, src_device, dst_device)
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


def _plain(name: str) -> str:
    """Return the signature of a function without its annotations."""
    parameters = inspect.signature(getattr(op, name)).parameters.values()
    unannotated = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return f"{name}({', '.join(map(str, unannotated))})"


@pytest.mark.parametrize("line", _SIGNATURES.split("\n")[1:-1])
def test_function_has_the_signature_of_tvm(line: str) -> None:
    assert _plain(line.partition("(")[0]) == line


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
        "InferCorrectLayoutOutput",
        "OpPattern",
        "Op",
        "algorithm",
        "annotation",
        "contrib",
        "register_op",
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
        "register_convert_op_layout",
        "register_op_attr",
        "register_pattern",
        "tensor",
        "transform",
    }
    assert same | others == set(op.__all__)
