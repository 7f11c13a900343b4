"""Cost of the `nn` kernels, compared with a matrix product of the same size.

python benchmarks/relay_kernels.py
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np

from apass.relay.expr import Call, Op, Var
from apass.relay.ir.ndarray import Array
from apass.relay.op import nn

ROUNDS = 7


@dataclass(frozen=True, slots=True)
class Row:
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
    Row("resnet first layer", (1, 3, 224, 224), (64, 3, 7, 7), 2, 3),
    Row("resnet 1x1", (1, 256, 56, 56), (64, 256, 1, 1), 1, 0),
    Row("resnet 3x3", (1, 64, 56, 56), (64, 64, 3, 3), 1, 1),
    Row("resnet 3x3, channels last", (1, 64, 56, 56), (64, 64, 3, 3), 1, 1, layout="NHWC"),
    Row("resnet 3x3, small image", (1, 512, 7, 7), (512, 512, 3, 3), 1, 1),
    Row("vgg 3x3", (1, 64, 224, 224), (64, 64, 3, 3), 1, 1),
    Row("vgg 3x3, many channels", (1, 512, 28, 28), (512, 512, 3, 3), 1, 1),
    Row("resnext, 32 groups", (1, 128, 56, 56), (128, 4, 3, 3), 1, 1, groups=32),
    Row("mobilenet, depthwise", (1, 32, 112, 112), (32, 1, 3, 3), 1, 1, groups=32),
)


def medians(*jobs: Callable[[], object]) -> list[float]:
    """Return the median seconds of each job; jobs run alternately, after a warm-up."""
    times: list[list[float]] = [[] for _ in jobs]
    for _ in range(ROUNDS + 1):
        for job, spent in zip(jobs, times, strict=True):
            start = perf_counter()
            job()
            spent.append(perf_counter() - start)
    return [statistics.median(spent[1:]) for spent in times]


def kernel(call: Call, *inputs: Array) -> Callable[[], object]:
    """Return a job that runs the kernel of a call."""
    if not isinstance(call.op, Op) or call.op.compute is None:
        raise TypeError(f"{call!r} has no kernel")
    return partial(call.op.compute, call.attrs, *inputs)


def measure(row: Row) -> None:
    """Print the time of a convolution, and its share of the speed of a matrix product."""
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
    ours, matmul = medians(kernel(call, data, weight), partial(np.matmul, *matrices))
    gigaflops = 2e-9 * filters * reduced * positions
    speeds = f"{gigaflops / ours:7.1f} GFLOP/s   matmul {gigaflops / matmul:7.1f} GFLOP/s"
    print(f"{row.name:<28} {ours * 1e3:8.2f} ms {speeds}   {matmul / ours:5.2f}")


def main() -> None:
    """Measure all rows."""
    print(f"{'conv2d':<28} {'time':>11} {'speed':>15}   {'numpy, same size':>22}   share of it")
    for row in ROWS:
        measure(row)


if __name__ == "__main__":
    main()
