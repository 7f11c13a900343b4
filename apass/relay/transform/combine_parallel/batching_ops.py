"""BatchingOps: all CombineParallel passes in sequence."""

from apass.passes.registry import provide_pass
from apass.passes.sequential import Sequential
from apass.relay.ir.module import IRModule
from apass.relay.transform.combine_parallel.batch_matmul import CombineParallelBatchMatmul
from apass.relay.transform.combine_parallel.conv2d import CombineParallelConv2D
from apass.relay.transform.combine_parallel.dense import CombineParallelDense

__all__ = ["BatchingOps"]


@provide_pass("BatchingOps")
def BatchingOps() -> Sequential[IRModule]:
    """Combine convolutions, dense layers and batched matrix products on one tensor."""
    passes = [CombineParallelConv2D(), CombineParallelDense(), CombineParallelBatchMatmul()]
    return Sequential(passes, name="BatchingOps")
