"""The classes of the attributes of operators, by the names that they have in TVM's `relay.op.op_attrs`."""

from apass.relay.op.annotation import DeviceCopyAttrs, OnDeviceAttrs
from apass.relay.op.attrs import InitOpAttrs
from apass.relay.op.axes import ExpandDimsAttrs, LayoutTransformAttrs, ReverseAttrs, SqueezeAttrs, TransposeAttrs
from apass.relay.op.broadcast import RepeatAttrs, TileAttrs
from apass.relay.op.convert import CastAttrs, ClipAttrs, FixedPointMultiplyAttrs
from apass.relay.op.create import ArangeAttrs, MeshgridAttrs
from apass.relay.op.diagonal import MatrixSetDiagAttrs
from apass.relay.op.dyn import DynExpandDimsAttrs, DynReshapeAttrs, DynStridedSliceAttrs
from apass.relay.op.einsum import EinsumAttrs
from apass.relay.op.image import Resize1DAttrs, Resize2DAttrs, Resize3DAttrs
from apass.relay.op.indexing import GatherAttrs, GatherNDAttrs, TakeAttrs
from apass.relay.op.join import ConcatenateAttrs, SplitAttrs, StackAttrs
from apass.relay.op.nn.activation import LeakyReluAttrs, PReluAttrs
from apass.relay.op.nn.adaptive_pool import AdaptivePool1DAttrs, AdaptivePool2DAttrs, AdaptivePool3DAttrs
from apass.relay.op.nn.batch_norm import BatchNormAttrs
from apass.relay.op.nn.batch_space import BatchToSpaceNDAttrs, DilateAttrs, SpaceToBatchNDAttrs
from apass.relay.op.nn.bias import BiasAddAttrs
from apass.relay.op.nn.conv import Conv1DAttrs, Conv2DAttrs, Conv3DAttrs
from apass.relay.op.nn.conv_transpose import Conv1DTransposeAttrs, Conv2DTransposeAttrs, Conv3DTransposeAttrs
from apass.relay.op.nn.deformable import DeformableConv2DAttrs
from apass.relay.op.nn.dense import BatchMatmulAttrs, DenseAttrs, MatmulAttrs
from apass.relay.op.nn.dense_pack import DensePackAttrs
from apass.relay.op.nn.depth_space import SubPixelAttrs
from apass.relay.op.nn.dropout import DropoutAttrs
from apass.relay.op.nn.fifo import FIFOBufferAttrs
from apass.relay.op.nn.global_pool import GlobalPool2DAttrs
from apass.relay.op.nn.loss import NLLLossAttrs
from apass.relay.op.nn.norm import GroupNormAttrs, InstanceNormAttrs, LayerNormAttrs
from apass.relay.op.nn.pad import MirrorPadAttrs, PadAttrs
from apass.relay.op.nn.pool import (
    AvgPool1DAttrs,
    AvgPool2DAttrs,
    AvgPool3DAttrs,
    MaxPool1DAttrs,
    MaxPool2DAttrs,
    MaxPool3DAttrs,
)
from apass.relay.op.nn.scale_norm import L2NormalizeAttrs, LRNAttrs
from apass.relay.op.nn.softmax import SoftmaxAttrs
from apass.relay.op.nn.upsampling import UpSampling3DAttrs, UpSamplingAttrs
from apass.relay.op.reduce import ArgReduceAttrs, ReduceAttrs
from apass.relay.op.reshape import ReshapeAttrs, ReshapeLikeAttrs
from apass.relay.op.scan import ScanopAttrs
from apass.relay.op.scatter import OneHotAttrs, ScatterAddAttrs, ScatterAttrs, ScatterNDAttrs, SparseToDenseAttrs
from apass.relay.op.search import UniqueAttrs
from apass.relay.op.sequence import ReverseSequenceAttrs, SequenceMaskAttrs
from apass.relay.op.shape import NdarraySizeAttrs, ShapeOfAttrs
from apass.relay.op.slicing import SliceLikeAttrs, StridedSliceAttrs
from apass.relay.op.sort import ArgsortAttrs, SearchSortedAttrs, TopkAttrs
from apass.relay.op.statistics import VarianceAttrs

__all__ = [
    "AdaptivePool1DAttrs",
    "AdaptivePool2DAttrs",
    "AdaptivePool3DAttrs",
    "ArangeAttrs",
    "ArgReduceAttrs",
    "ArgsortAttrs",
    "AvgPool1DAttrs",
    "AvgPool2DAttrs",
    "AvgPool3DAttrs",
    "BatchMatmulAttrs",
    "BatchNormAttrs",
    "BatchToSpaceNDAttrs",
    "BiasAddAttrs",
    "CastAttrs",
    "ClipAttrs",
    "ConcatenateAttrs",
    "Conv1DAttrs",
    "Conv1DTransposeAttrs",
    "Conv2DAttrs",
    "Conv2DTransposeAttrs",
    "Conv3DAttrs",
    "Conv3DTransposeAttrs",
    "DeformableConv2DAttrs",
    "DenseAttrs",
    "DensePackAttrs",
    "DeviceCopyAttrs",
    "DilateAttrs",
    "DropoutAttrs",
    "DynExpandDimsAttrs",
    "DynReshapeAttrs",
    "DynStridedSliceAttrs",
    "EinsumAttrs",
    "ExpandDimsAttrs",
    "FIFOBufferAttrs",
    "FixedPointMultiplyAttrs",
    "GatherAttrs",
    "GatherNDAttrs",
    "GlobalPool2DAttrs",
    "GroupNormAttrs",
    "InitOpAttrs",
    "InstanceNormAttrs",
    "L2NormalizeAttrs",
    "LRNAttrs",
    "LayerNormAttrs",
    "LayoutTransformAttrs",
    "LeakyReluAttrs",
    "MatmulAttrs",
    "MatrixSetDiagAttrs",
    "MaxPool1DAttrs",
    "MaxPool2DAttrs",
    "MaxPool3DAttrs",
    "MeshgridAttrs",
    "MirrorPadAttrs",
    "NLLLossAttrs",
    "NdarraySizeAttrs",
    "OnDeviceAttrs",
    "OneHotAttrs",
    "PReluAttrs",
    "PadAttrs",
    "ReduceAttrs",
    "RepeatAttrs",
    "ReshapeAttrs",
    "ReshapeLikeAttrs",
    "Resize1DAttrs",
    "Resize2DAttrs",
    "Resize3DAttrs",
    "ReverseAttrs",
    "ReverseSequenceAttrs",
    "ScanopAttrs",
    "ScatterAddAttrs",
    "ScatterAttrs",
    "ScatterNDAttrs",
    "SearchSortedAttrs",
    "SequenceMaskAttrs",
    "ShapeOfAttrs",
    "SliceLikeAttrs",
    "SoftmaxAttrs",
    "SpaceToBatchNDAttrs",
    "SparseToDenseAttrs",
    "SplitAttrs",
    "SqueezeAttrs",
    "StackAttrs",
    "StridedSliceAttrs",
    "SubPixelAttrs",
    "TakeAttrs",
    "TileAttrs",
    "TopkAttrs",
    "TransposeAttrs",
    "UniqueAttrs",
    "UpSampling3DAttrs",
    "UpSamplingAttrs",
    "VarianceAttrs",
]
