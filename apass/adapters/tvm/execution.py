"""Running a pass of TVM: its context, its slot, and the thread that it runs in.

TVM keeps its `PassContext` and its target for each thread. They are entered in the thread that runs a pass, for one
call.
"""

import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from time import perf_counter
from typing import Any, Final, TypeVar

from anyio import to_thread

from apass.adapters.tvm.adapter import ADAPTER
from apass.adapters.tvm.ambient import ambient
from apass.adapters.tvm.library import IRModule, short_reason, tvm
from apass.concurrency.limits import NO_LIMIT, Slots, usable_cores
from apass.core.context import PassContext, waiting_for
from apass.core.run import current_module_name
from apass.errors import AdapterError, ApassError

__all__ = [
    "CONFIG_PREFIX",
    "TARGET",
    "call",
    "call_in_thread",
    "exclusively",
    "free_cores",
    "mirrored",
    "released",
    "run_plain",
    "slot",
]

R = TypeVar("R")

CONFIG_PREFIX: Final = "tvm."
"""The keys of TVM's config options in a context of apass begin with it."""

TARGET: Final = "tvm.target"
"""The key of the config option for the target, such as `"llvm"`, that passes generate code for."""


def run_plain(target: Any, mod: IRModule, ctx: PassContext) -> IRModule:
    """Return the result of a pass of TVM, run in this thread without hooks.

    Parameters:
        target: the pass, a `tvm.transform.Pass` that is safe in several threads at once.
        mod: the module.
        ctx: the context that TVM's own context is made from.

    Raises:
        AdapterError: for any error of TVM.

    """
    with mirrored(ctx, []):
        return call(target, mod)


async def call_in_thread(function: Callable[[], R], ctx: PassContext, *, exclusive: bool) -> R:
    """Return the result of a function that uses TVM, called in a worker thread.

    TVM's context in the thread is that of `ctx`. If the call is `exclusive`, no exclusive pass runs at the same time.
    """

    def work() -> R:
        start = perf_counter()
        try:
            with exclusively(exclusive), mirrored(ctx, []):
                return function()
        finally:
            ctx.report_work(f"thread {threading.get_native_id()}", start, perf_counter())

    async with slot(exclusive):
        with waiting_for("a worker thread"):
            return await to_thread.run_sync(work, limiter=NO_LIMIT.here())


def free_cores() -> int:
    """Return how many more passes that are not exclusive may start in this event loop."""
    return int(_CONCURRENT.here().available_tokens)


_HOLDS_SLOT: ContextVar[bool] = ContextVar("apass_tvm_holds_slot", default=False)
"""Whether a pass of TVM waits for the caller, so that its slot is free."""

_CONCURRENT: Final = Slots(usable_cores())
_ALONE: Final = Slots(1)
_LOCK: Final = threading.RLock()
"""Held while an exclusive pass runs: the event loops of a process share the state of TVM."""


@asynccontextmanager
async def slot(exclusive: bool) -> AsyncGenerator[None]:
    """Wait for a slot for a pass: that of the exclusive ones, or one for each CPU."""
    if _HOLDS_SLOT.get():
        yield
        return
    async with (_ALONE if exclusive else _CONCURRENT).here():
        token = _HOLDS_SLOT.set(True)
        try:
            yield
        finally:
            _HOLDS_SLOT.reset(token)


def exclusively(exclusive: bool) -> AbstractContextManager[Any]:
    """Hold the lock of exclusive passes in the block, if `exclusive`."""
    return _LOCK if exclusive else nullcontext()


@contextmanager
def released(exclusive: bool) -> Generator[None]:
    """Release the lock of exclusive passes in the block."""
    if not exclusive:
        yield
        return
    _LOCK.release()
    try:
        yield
    finally:
        _LOCK.acquire()


@contextmanager
def mirrored(ctx: PassContext, instruments: list[Any]) -> Generator[None]:
    """Enter a `PassContext` of TVM in this thread.

    Level, selection and config are those of `ctx`, with the selection and config of TVM's ambient context. A name such
    as `tvm.relax.FoldConstant` is that of TVM's pass too. The target of the option `tvm.target` is entered as well, or
    else the ambient one.
    """
    outer = ambient()
    own = {
        key.removeprefix(CONFIG_PREFIX): value
        for key, value in ctx.config.items()
        if key.startswith(CONFIG_PREFIX) and key != TARGET and value is not None
    }
    required, disabled = ctx.required_pass | outer.required, ctx.disabled_pass | outer.disabled
    name = ctx.config.get(TARGET)
    try:
        mirrored = tvm.transform.PassContext(
            ctx.opt_level, _names(required), _names(disabled), instruments, {**outer.config, **own}
        )
        target = (outer.target or nullcontext()) if name is None else tvm.target.Target(name)
    except Exception as error:  # TVM raises errors of many types
        raise AdapterError(f"TVM rejects the context: {short_reason(error)}") from None
    with mirrored, target:
        yield


def _names(names: Iterable[str]) -> list[str]:
    """Return the names of passes, with those that TVM gives its own.

    These are `FoldConstant` and `tirx.Simplify`, for example.
    """
    own = {name.removeprefix(CONFIG_PREFIX).removeprefix("relax.") for name in names if name.startswith(CONFIG_PREFIX)}
    return sorted(own.union(names))


def call(target: Any, mod: IRModule, *, may_skip: bool = True) -> IRModule:
    """Return the result of a pass of TVM, called in TVM's context of this thread.

    If it is a function pass, functions with a true `SkipOptimization` stay as they are. A pass that TVM's ambient
    context disables returns the module.

    Parameters:
        target: the pass.
        mod: the module.
        may_skip: False if the module is known to have no such function.

    Raises:
        AdapterError: for any error of TVM.

    """
    if (disabled := ambient().disabled) and str(target.info.name) in disabled:
        return mod
    try:
        result = target(mod)
    except ApassError:
        raise
    except Exception as error:  # TVM raises errors of many types
        name = current_module_name()
        where = "a module without name" if name is None else f"module {name!r}"
        reason = short_reason(error)
        raise AdapterError(f"pass {str(target.info.name)!r} of TVM failed on {where}: {reason}") from error
    if not may_skip or not isinstance(target, _FUNCTION_PASSES):
        return result
    skipped = {name: func for name, func in ADAPTER.functions(mod) if ADAPTER.skips(func)}
    return ADAPTER.replace(result, skipped) if skipped else result


_FUNCTION_PASSES: Final[tuple[Any, ...]] = (
    tvm.relax.transform.FunctionPass,
    tvm.relax.transform.DataflowBlockPass,
    tvm.tirx.transform.PrimFuncPass,
)
