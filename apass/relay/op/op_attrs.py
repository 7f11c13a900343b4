"""The classes of operator attributes, by their names in TVM's `relay.op.op_attrs`."""

from apass.relay.op.annotation import CompilerAttrs, DeviceCopyAttrs, OnDeviceAttrs
from apass.relay.op.define.attrs import InitOpAttrs
from apass.relay.op.dyn.dyn import DynExpandDimsAttrs, DynReshapeAttrs, DynStridedSliceAttrs
from apass.relay.op.elementwise.convert import CastAttrs, ClipAttrs, FixedPointMultiplyAttrs
from apass.relay.op.image import Resize1DAttrs, Resize2DAttrs, Resize3DAttrs
from apass.relay.op.index.diagonal import MatrixSetDiagAttrs
from apass.relay.op.index.gather import GatherAttrs, GatherNDAttrs, TakeAttrs
from apass.relay.op.index.scatter import OneHotAttrs, ScatterAddAttrs, ScatterAttrs, ScatterNDAttrs, SparseToDenseAttrs
from apass.relay.op.index.search import UniqueAttrs
from apass.relay.op.index.sequence import ReverseSequenceAttrs, SequenceMaskAttrs
from apass.relay.op.index.sort import ArgsortAttrs, SearchSortedAttrs, TopkAttrs
from apass.relay.op.nn.activation import LeakyReluAttrs, PReluAttrs
from apass.relay.op.nn.conv.conv import Conv1DAttrs, Conv2DAttrs, Conv3DAttrs
from apass.relay.op.nn.conv.deformable import DeformableConv2DAttrs
from apass.relay.op.nn.conv.transpose import Conv1DTransposeAttrs, Conv2DTransposeAttrs, Conv3DTransposeAttrs
from apass.relay.op.nn.dense.bias import BiasAddAttrs
from apass.relay.op.nn.dense.dense import BatchMatmulAttrs, DenseAttrs, MatmulAttrs
from apass.relay.op.nn.dense.pack import DensePackAttrs
from apass.relay.op.nn.dropout import DropoutAttrs
from apass.relay.op.nn.fifo_buffer import FIFOBufferAttrs
from apass.relay.op.nn.loss import NLLLossAttrs
from apass.relay.op.nn.norm.batch_norm import BatchNormAttrs
from apass.relay.op.nn.norm.norm import GroupNormAttrs, InstanceNormAttrs, LayerNormAttrs
from apass.relay.op.nn.norm.scale import L2NormalizeAttrs, LRNAttrs
from apass.relay.op.nn.pad import MirrorPadAttrs, PadAttrs
from apass.relay.op.nn.pool.adaptive import AdaptivePool1DAttrs, AdaptivePool2DAttrs, AdaptivePool3DAttrs
from apass.relay.op.nn.pool.global_pool import GlobalPool2DAttrs
from apass.relay.op.nn.pool.pool import (
    AvgPool1DAttrs,
    AvgPool2DAttrs,
    AvgPool3DAttrs,
    MaxPool1DAttrs,
    MaxPool2DAttrs,
    MaxPool3DAttrs,
)
from apass.relay.op.nn.softmax import SoftmaxAttrs
from apass.relay.op.nn.space.batch import BatchToSpaceNDAttrs, DilateAttrs, SpaceToBatchNDAttrs
from apass.relay.op.nn.space.depth import SubPixelAttrs
from apass.relay.op.nn.upsampling import UpSampling3DAttrs, UpSamplingAttrs
from apass.relay.op.reduce import ArgReduceAttrs, ReduceAttrs
from apass.relay.op.reduction.einsum import EinsumAttrs
from apass.relay.op.reduction.scan import ScanopAttrs
from apass.relay.op.reduction.statistics import VarianceAttrs
from apass.relay.op.shape.axes import ExpandDimsAttrs, LayoutTransformAttrs, ReverseAttrs, SqueezeAttrs, TransposeAttrs
from apass.relay.op.shape.broadcast import RepeatAttrs, TileAttrs
from apass.relay.op.shape.create import ArangeAttrs, MeshgridAttrs
from apass.relay.op.shape.join import ConcatenateAttrs, SplitAttrs, StackAttrs
from apass.relay.op.shape.reshape import ReshapeAttrs, ReshapeLikeAttrs
from apass.relay.op.shape.shape_of import NdarraySizeAttrs, ShapeOfAttrs
from apass.relay.op.shape.slicing import SliceLikeAttrs, StridedSliceAttrs

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
    "CompilerAttrs",
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
