"""Registered operators: fusion pattern, level, arguments, documentation."""

import re
from dataclasses import fields
from inspect import getdoc, getsource, signature

import pytest

from apass.relay.expr import OPS, Op
from apass.relay.op import image, nn

ELEMWISE, BROADCAST, INJECTIVE, OUT_FUSABLE, OPAQUE = 0, 1, 2, 4, 8

TVM: dict[str, tuple[int, int, tuple[str, ...]]] = {
    "nn.adaptive_avg_pool1d": (OUT_FUSABLE, 10, ("data",)),
    "nn.adaptive_avg_pool2d": (OUT_FUSABLE, 10, ("data",)),
    "nn.adaptive_avg_pool3d": (OUT_FUSABLE, 10, ("data",)),
    "nn.adaptive_max_pool1d": (OUT_FUSABLE, 10, ("data",)),
    "nn.adaptive_max_pool2d": (OUT_FUSABLE, 10, ("data",)),
    "nn.adaptive_max_pool3d": (OUT_FUSABLE, 10, ("data",)),
    "nn.avg_pool1d": (OUT_FUSABLE, 2, ("data",)),
    "nn.avg_pool2d": (OUT_FUSABLE, 2, ("data",)),
    "nn.avg_pool3d": (OUT_FUSABLE, 2, ("data",)),
    "nn.avg_pool2d_grad": (OUT_FUSABLE, 2, ("out_grad", "data")),
    "nn.batch_flatten": (INJECTIVE, 2, ("data",)),
    "nn.batch_matmul": (OUT_FUSABLE, 10, ("tensor_a", "tensor_b")),
    "nn.batch_norm": (OPAQUE, 1, ("data", "gamma", "beta", "moving_mean", "moving_var")),
    "nn.batch_to_space_nd": (INJECTIVE, 5, ("data",)),
    "nn.bias_add": (BROADCAST, 1, ("data", "bias")),
    "nn.contrib_conv2d_NCHWc": (OUT_FUSABLE, 2, ("data", "weight")),
    "nn.contrib_dense_pack": (OUT_FUSABLE, 10, ("data", "weight")),
    "nn.contrib_depthwise_conv2d_NCHWc": (OUT_FUSABLE, 2, ("data", "weight")),
    "nn.conv1d": (OUT_FUSABLE, 2, ("data", "weight")),
    "nn.conv1d_transpose": (OUT_FUSABLE, 2, ("data", "weight")),
    "nn.conv2d": (OUT_FUSABLE, 2, ("data", "weight")),
    "nn.conv2d_transpose": (OUT_FUSABLE, 2, ("data", "weight")),
    "nn.conv3d": (OUT_FUSABLE, 2, ("data", "weight")),
    "nn.conv3d_transpose": (OUT_FUSABLE, 2, ("data", "weight")),
    "nn.cross_entropy": (OPAQUE, 10, ("predictions", "targets")),
    "nn.cross_entropy_with_logits": (OPAQUE, 10, ("predictions", "targets")),
    "nn.deformable_conv2d": (OUT_FUSABLE, 5, ("data", "offset", "weight")),
    "nn.dense": (OUT_FUSABLE, 1, ("data", "weight")),
    "nn.depth_to_space": (INJECTIVE, 5, ("data",)),
    "nn.dilate": (INJECTIVE, 10, ("x",)),
    "nn.dropout": (OPAQUE, 1, ("data",)),
    "nn.fast_softmax": (OUT_FUSABLE, 1, ("data",)),
    "nn.fifo_buffer": (OPAQUE, 10, ("data", "buffer")),
    "nn.global_avg_pool2d": (OUT_FUSABLE, 2, ("data",)),
    "nn.global_max_pool2d": (OUT_FUSABLE, 2, ("data",)),
    "nn.group_norm": (OPAQUE, 1, ("data", "gamma", "beta")),
    "nn.instance_norm": (OPAQUE, 1, ("data", "gamma", "beta")),
    "nn.l2_normalize": (OUT_FUSABLE, 2, ("data",)),
    "nn.layer_norm": (OPAQUE, 1, ("data", "gamma", "beta")),
    "nn.leaky_relu": (ELEMWISE, 3, ("data",)),
    "nn.log_softmax": (OPAQUE, 1, ("data",)),
    "nn.lrn": (OPAQUE, 2, ("data",)),
    "nn.matmul": (OUT_FUSABLE, 1, ("tensor_a", "tensor_b")),
    "nn.max_pool1d": (OUT_FUSABLE, 2, ("data",)),
    "nn.max_pool2d": (OUT_FUSABLE, 2, ("data",)),
    "nn.max_pool2d_grad": (OUT_FUSABLE, 2, ("out_grad", "data")),
    "nn.max_pool3d": (OUT_FUSABLE, 2, ("data",)),
    "nn.mirror_pad": (INJECTIVE, 2, ("data",)),
    "nn.nll_loss": (OUT_FUSABLE, 10, ("predictions", "targets", "weights")),
    "nn.pad": (INJECTIVE, 2, ("data", "pad_value")),
    "nn.prelu": (BROADCAST, 3, ("data", "alpha")),
    "nn.relu": (ELEMWISE, 1, ("data",)),
    "nn.softmax": (OUT_FUSABLE, 1, ("data",)),
    "nn.space_to_batch_nd": (INJECTIVE, 5, ("data",)),
    "nn.space_to_depth": (INJECTIVE, 5, ("data",)),
    "nn.upsampling": (INJECTIVE, 2, ("data",)),
    "nn.upsampling3d": (INJECTIVE, 2, ("data",)),
    "image.resize1d": (INJECTIVE, 5, ("data",)),
    "image.resize2d": (INJECTIVE, 5, ("data",)),
    "image.resize3d": (INJECTIVE, 5, ("data",)),
}


@pytest.mark.parametrize("name", sorted(TVM))
def test_operator_is_registered_as_in_tvm(name: str) -> None:
    op = Op.get(name)
    assert (op.get_attr("TOpPattern"), op.support_level, op.arguments) == TVM[name]
    assert op.num_inputs == len(op.arguments)
    assert op.description.endswith(".")


def test_table_covers_all_nn_and_image_operators() -> None:
    assert {name for name in OPS if name.startswith(("nn.", "image."))} == set(TVM)


@pytest.mark.parametrize("name", sorted(name for name in TVM if Op.get(name).attrs_type is not None))
def test_every_attribute_is_documented(name: str) -> None:
    attrs_type = Op.get(name).attrs_type
    assert attrs_type is not None
    source = "".join(getsource(base) for base in attrs_type.__mro__ if base.__name__.endswith("Attrs"))
    for field in fields(attrs_type):
        assert re.search(rf'\n    {field.name}: [^\n]+\n    """\w', source), field.name


@pytest.mark.parametrize("name", sorted({*nn.__all__, "resize1d", "resize2d", "resize3d"}))
def test_every_function_is_documented_and_typed(name: str) -> None:
    function = getattr(image if name.startswith("resize") else nn, name)
    assert (getdoc(function) or "").startswith("Return ")
    assert all(parameter.annotation is not parameter.empty for parameter in signature(function).parameters.values())
