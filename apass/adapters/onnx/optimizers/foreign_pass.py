"""`ForeignPass`: a pass of another ONNX optimizer, run in a worker process."""

import inspect
from collections.abc import Awaitable, Mapping, Sequence
from time import perf_counter
from typing import Any, Final, Literal

import onnx_ir as ir
from anyio import BrokenWorkerProcess, to_process, to_thread

from apass.adapters.onnx import ADAPTER, count_nodes, model_from_bytes
from apass.adapters.onnx.calls import MAX_EXPANDED
from apass.adapters.onnx.optimizers.isolation import Optimizer, Request, optimize_bytes
from apass.adapters.onnx.validation import check_model, quoted
from apass.concurrency.processes.pool import run_in_worker
from apass.core.context import PassContext, waiting_for
from apass.core.pass_info import PassInfo
from apass.core.remarks import Remark
from apass.core.run import current_module_name
from apass.errors import AdapterError, VerifyError
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass

__all__ = ["LIMITS", "ForeignPass", "provide"]

LIMITS: Final[Mapping[str, int]] = {"max_memory": 2**30, "max_nodes": MAX_EXPANDED}
"""Options of every pass, with their default values.

- `max_memory`: bytes that an optimizer may allocate in addition to eight times the size of the model. Only Linux
  enforces it.
- `max_nodes`: maximum number of nodes in the bodies of functions, counted once for each call.
"""


class ForeignPass(ModulePass[ir.Model]):
    """A pass of another ONNX optimizer.

    The optimizer runs in a worker process: it may use global state, print, allocate without limit or crash.

    - The input model is not changed. If the optimizer changes nothing, the result is the input model itself.
    - Names and types of inputs and outputs, metadata and the marks `SkipOptimization` are kept.
    - A cancellation, such as the end of a deadline, kills the process.
    - An invalid result, or a result with other inputs or outputs, raises VerifyError. Where onnxruntime is installed, a
      result that it does not load is invalid, if it loads the input.
    - Any error of the optimizer, and a crash, raise AdapterError.

    Parameters:
        optimizer: the function of the optimizer.
        info: level and name of the pass.
        options: keyword arguments of the function, and limits (`LIMITS`).

    """

    cacheable: bool | Literal["module"] = True

    def __init__(self, optimizer: Optimizer, info: PassInfo, options: Mapping[str, Any]) -> None:
        self.info = info
        self.optimizer = optimizer
        """The function that runs in the worker process, with its library."""
        self.options: dict[str, Any] = dict(options)
        """Keyword arguments of the function, and limits."""
        self.version = f"{optimizer.library} {optimizer.version}, onnx-ir {ir.__version__}"

    def transform_module(self, mod: ir.Model, ctx: PassContext) -> Awaitable[ir.Model]:
        """Run the optimizer on a copy of `mod` in a worker process.

        Raises:
            AdapterError: if `mod` is not an `onnx_ir.Model`, or the optimizer fails.
            VerifyError: if the result is invalid.

        """
        check_model(f"pass {self.info.name!r}", mod)
        return self._optimize(mod, ctx)

    async def _optimize(self, mod: ir.Model, ctx: PassContext) -> ir.Model:
        options = {key: value for key, value in self.options.items() if key not in LIMITS}
        limits = {key: int(self.options.get(key, default)) for key, default in LIMITS.items()}
        name = quoted(current_module_name() or "without name")
        with waiting_for("its worker process"):
            data = await to_thread.run_sync(ADAPTER.dumps, mod)
            request = Request(self.optimizer, options, limits["max_memory"] + 8 * len(data), limits["max_nodes"], name)
            async with to_process.current_default_process_limiter():
                start = perf_counter()
                try:
                    result = await run_in_worker(optimize_bytes, data, request)
                except BrokenWorkerProcess as error:
                    raise AdapterError(
                        f"{self.optimizer.library} crashed on model {name}: its worker process ended "
                        f"({str(error) or 'without a message'}); the model is unchanged"
                    ) from error
                finally:
                    ctx.report_work(f"{self.optimizer.library} process", start, perf_counter())
            if result is None:
                return mod
            try:
                source = f"the result of {self.optimizer.library}"
                optimized = await to_thread.run_sync(model_from_bytes, result, source)
            except AdapterError as error:
                # `ADAPTER.verify` in the worker does not find a name that hides an outer one.
                raise VerifyError(str(error)) from None
        if ctx.wants_remarks or ctx.wants_statistics:
            before, after = count_nodes(mod), count_nodes(optimized)
            message = f"{before} nodes before, {after} after"
            ctx.remark(Remark.analysis("NodeCount", message, before=before, after=after))
            ctx.statistic("changed")
            if before > after:
                ctx.statistic("nodes removed", before - after)
        return optimized


def provide(
    name: str,
    optimizer: Optimizer,
    doc: str,
    parameters: Sequence[inspect.Parameter] = (),
) -> None:
    """Register a pass of another optimizer.

    Its options are `parameters` and the limits. Its level is 0: a pipeline that names it runs it at every level.
    """
    limits = [
        inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=int)
        for option, default in LIMITS.items()
    ]

    def factory(**options: Any) -> ForeignPass:
        return ForeignPass(optimizer, PassInfo(0, name), options)

    provide_pass(name, options=[*parameters, *limits], doc=doc)(factory)
