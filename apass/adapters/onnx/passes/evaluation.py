"""The pass `onnx.EvaluateConstants`, which awaits a worker process."""

from collections.abc import Awaitable
from typing import Final, Literal

import onnx
import onnx_ir as ir
from anyio import CapacityLimiter, to_process

from apass.adapters.onnx.passes.constant_part import ConstantPart, constant_part, evaluate_part, replace_part
from apass.adapters.onnx.rewrites.engine import MAX_BYTES
from apass.concurrency.processes.pool import LostCall, call_in_worker
from apass.core.adapter import adapter_for
from apass.core.context import PassContext, waiting_for
from apass.core.pass_info import PassInfo
from apass.passes.base import ModulePass

__all__ = ["TIME_LIMIT", "EvaluateConstants"]

TIME_LIMIT: Final = 60.0
"""Default time limit of an evaluation in seconds."""


class EvaluateConstants(ModulePass[ir.Model]):
    """Compute constant values in a worker process, with onnxruntime or the reference.

    All constant nodes are evaluated at once. If the evaluation fails, exceeds the time limit, or kills its process, the
    model stays as it is, and a warning is emitted.

    Parameters:
        info: level and name of the pass.
        max_bytes: maximum size in bytes of one value that is read or computed.
        time_limit: seconds for the evaluation, after which its process is killed.

    """

    cacheable: bool | Literal["module"] = True
    version: str = f"onnx {onnx.__version__}, onnx-ir {ir.__version__}, 1"

    def __init__(self, info: PassInfo, *, max_bytes: int = MAX_BYTES, time_limit: float = TIME_LIMIT) -> None:
        self.info = info
        self.max_bytes = max_bytes
        """Maximum size in bytes of one value."""
        self.time_limit = time_limit
        """Seconds for the evaluation."""

    def transform_module(self, mod: ir.Model, ctx: PassContext) -> ir.Model | Awaitable[ir.Model]:
        """Return `mod` if nothing is constant, else evaluate it."""
        part = constant_part(mod, self.max_bytes)
        return mod if part is None else self._evaluate(mod, part, ctx)

    async def _evaluate(self, mod: ir.Model, part: ConstantPart, ctx: PassContext) -> ir.Model:
        limiter: CapacityLimiter = to_process.current_default_process_limiter()
        with waiting_for("its worker process"):
            arrays = await call_in_worker(evaluate_part, (part.model,), self.time_limit, limiter)
        if arrays is None or isinstance(arrays, LostCall):
            reason = "no evaluator supports them" if arrays is None else arrays.reason
            ctx.diag_ctx.warning(f"pass {self.info.name!r}: constants are not evaluated: {reason}")
            return mod
        adapter = adapter_for(mod)
        copied = adapter.isolate(mod, [name for name, _ in adapter.functions(mod)])
        return copied if replace_part(copied, part, arrays) else mod
