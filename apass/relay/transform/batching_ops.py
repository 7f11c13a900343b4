"""BatchingOps: operators on one tensor become one, of every kind that there is a pass for."""

from apass.registry import provide_pass
from apass.relay.module import IRModule
from apass.relay.transform.combine_parallel_batch_matmul import CombineParallelBatchMatmul
from apass.relay.transform.combine_parallel_conv2d import CombineParallelConv2D
from apass.relay.transform.combine_parallel_dense import CombineParallelDense
from apass.sequential import Sequential

__all__ = ["BatchingOps"]


@provide_pass("BatchingOps")
def BatchingOps() -> Sequential[IRModule]:
    """Combine convolutions, dense layers and batched matrix products on one tensor."""
    passes = [CombineParallelConv2D(), CombineParallelDense(), CombineParallelBatchMatmul()]
    return Sequential(passes, name="BatchingOps")
