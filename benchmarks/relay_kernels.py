"""Cost of the `nn` kernels, compared with a matrix product of the same size.

python -m benchmarks.relay_kernels
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import anyio
import numpy as np

from apass.relay.expr import Call, Op, Var
from apass.relay.ir.ndarray import Array
from apass.relay.op import nn
from benchmarks.area import Benchmark, main
from benchmarks.measure import compare


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution to measure."""

    name: str
    """Network or layer that contains it."""
    data: tuple[int, int, int, int]
    """The shape of the images."""
    weight: tuple[int, int, int, int]
    """The shape of the weight."""
    stride: int
    """The distance between windows."""
    padding: int
    """The zeros on each side."""
    groups: int = 1
    """The number of groups."""
    layout: str = "NCHW"
    """The layout of the images; the weight's is HWIO if the channels are the last axis."""


ROWS = (
    Convolution("resnet first layer", (1, 3, 224, 224), (64, 3, 7, 7), 2, 3),
    Convolution("resnet 1x1", (1, 256, 56, 56), (64, 256, 1, 1), 1, 0),
    Convolution("resnet 3x3", (1, 64, 56, 56), (64, 64, 3, 3), 1, 1),
    Convolution("resnet 3x3, channels last", (1, 64, 56, 56), (64, 64, 3, 3), 1, 1, layout="NHWC"),
    Convolution("resnet 3x3, small image", (1, 512, 7, 7), (512, 512, 3, 3), 1, 1),
    Convolution("vgg 3x3", (1, 64, 224, 224), (64, 64, 3, 3), 1, 1),
    Convolution("vgg 3x3, many channels", (1, 512, 28, 28), (512, 512, 3, 3), 1, 1),
    Convolution("resnext, 32 groups", (1, 128, 56, 56), (128, 4, 3, 3), 1, 1, groups=32),
    Convolution("mobilenet, depthwise", (1, 32, 112, 112), (32, 1, 3, 3), 1, 1, groups=32),
)


def kernel(call: Call, *inputs: Array) -> Callable[[], object]:
    """Return a job that runs the kernel of a call."""
    if not isinstance(call.op, Op) or call.op.compute is None:
        raise TypeError(f"{call!r} has no kernel")
    return partial(call.op.compute, call.attrs, *inputs)


async def measure(row: Convolution, rounds: int) -> None:
    """Compare a convolution with a matrix product."""
    data, weight = np.ones(row.data, "float32"), np.ones(row.weight, "float32")
    batch, _, height, width = row.data
    filters, channels_per_group, kernel_height, kernel_width = row.weight
    channels_last = row.layout == "NHWC"
    call = nn.conv2d(
        Var("data"),
        Var("weight"),
        strides=row.stride,
        padding=row.padding,
        groups=row.groups,
        data_layout=row.layout,
        kernel_layout="HWIO" if channels_last else "OIHW",
    )
    if channels_last:
        data, weight = np.ascontiguousarray(data.transpose(0, 2, 3, 1)), weight.transpose(2, 3, 1, 0)
    out_height, out_width = ((side + 2 * row.padding - kernel_height) // row.stride + 1 for side in (height, width))
    reduced, positions = channels_per_group * kernel_height * kernel_width, batch * out_height * out_width
    matrices = np.ones((filters, reduced), "float32"), np.ones((reduced, positions), "float32")
    await compare(row.name, kernel(call, data, weight), partial(np.matmul, *matrices), None, "numpy.matmul", rounds)


def convolutions(rounds: int) -> None:
    """Compare convolutions with a matrix product of the same size."""

    async def measure_all() -> None:
        for row in ROWS:
            await measure(row, rounds)

    anyio.run(measure_all)


BENCHMARKS = (Benchmark(convolutions, rounds=7),)

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
