"""Operators of neural networks: `relay.nn`."""

from apass.relay.op.nn.activation import leaky_relu, prelu, relu
from apass.relay.op.nn.conv.conv import conv1d, conv2d, conv3d
from apass.relay.op.nn.conv.deformable import deformable_conv2d
from apass.relay.op.nn.conv.packed import contrib_conv2d_nchwc, contrib_depthwise_conv2d_nchwc
from apass.relay.op.nn.conv.transpose import conv1d_transpose, conv2d_transpose, conv3d_transpose
from apass.relay.op.nn.dense.bias import bias_add
from apass.relay.op.nn.dense.dense import batch_matmul, dense, matmul
from apass.relay.op.nn.dense.pack import contrib_dense_pack
from apass.relay.op.nn.dropout import dropout, dropout_raw
from apass.relay.op.nn.fifo_buffer import fifo_buffer
from apass.relay.op.nn.flatten import batch_flatten
from apass.relay.op.nn.loss import cross_entropy, cross_entropy_with_logits, nll_loss
from apass.relay.op.nn.norm.batch_norm import batch_norm
from apass.relay.op.nn.norm.norm import group_norm, instance_norm, layer_norm
from apass.relay.op.nn.norm.scale import l2_normalize, lrn
from apass.relay.op.nn.pad import mirror_pad, pad
from apass.relay.op.nn.pool.adaptive import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from apass.relay.op.nn.pool.global_pool import (
    global_avg_pool1d,
    global_avg_pool2d,
    global_avg_pool3d,
    global_max_pool1d,
    global_max_pool2d,
    global_max_pool3d,
)
from apass.relay.op.nn.pool.grad import avg_pool2d_grad, max_pool2d_grad
from apass.relay.op.nn.pool.pool import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
from apass.relay.op.nn.softmax import fast_softmax, log_softmax, softmax
from apass.relay.op.nn.space.batch import batch_to_space_nd, dilate, space_to_batch_nd
from apass.relay.op.nn.space.depth import depth_to_space, space_to_depth
from apass.relay.op.nn.upsampling import upsampling, upsampling3d

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool2d_grad",
    "avg_pool3d",
    "batch_flatten",
    "batch_matmul",
    "batch_norm",
    "batch_to_space_nd",
    "bias_add",
    "contrib_conv2d_nchwc",
    "contrib_dense_pack",
    "contrib_depthwise_conv2d_nchwc",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "cross_entropy",
    "cross_entropy_with_logits",
    "deformable_conv2d",
    "dense",
    "depth_to_space",
    "dilate",
    "dropout",
    "dropout_raw",
    "fast_softmax",
    "fifo_buffer",
    "global_avg_pool1d",
    "global_avg_pool2d",
    "global_avg_pool3d",
    "global_max_pool1d",
    "global_max_pool2d",
    "global_max_pool3d",
    "group_norm",
    "instance_norm",
    "l2_normalize",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "lrn",
    "matmul",
    "max_pool1d",
    "max_pool2d",
    "max_pool2d_grad",
    "max_pool3d",
    "mirror_pad",
    "nll_loss",
    "pad",
    "prelu",
    "relu",
    "softmax",
    "space_to_batch_nd",
    "space_to_depth",
    "upsampling",
    "upsampling3d",
]
