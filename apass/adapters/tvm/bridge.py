"""`from_tvm` and `to_tvm`: passes of TVM in apass, and the other way round."""

from collections.abc import Awaitable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, ClassVar, Final, Never

import anyio
from anyio import from_thread

from apass.adapters.tvm.adapter import ADAPTER
from apass.adapters.tvm.ambient import ambient, captured
from apass.adapters.tvm.concurrency import is_concurrent, is_fatal, is_local
from apass.adapters.tvm.execution import CONFIG_PREFIX, run_plain
from apass.adapters.tvm.grouping import Step, part_of, run_steps
from apass.adapters.tvm.inner_passes import current_call, run_whole_pass
from apass.adapters.tvm.library import BaseFunc, IRModule, tvm, tvm_ffi
from apass.core.adapter import FunctionKind
from apass.core.context import PassContext, expect_pass_names
from apass.core.pass_info import PassInfo
from apass.core.run import current_run
from apass.errors import AdapterError, ApassError, ExecutorError, PassResultError
from apass.passes.base import ModulePass, Pass
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import get_pass
from apass.passes.sequential import Sequential
from apass.runner.changes import can_merge_passes

__all__ = ["TVMFunctionPass", "TVMIsolatedPass", "TVMModulePass", "TVMPrimFuncPass", "from_tvm", "make_pass", "to_tvm"]

_relax: Final[Any] = tvm.relax
_tirx: Final[Any] = tvm.tirx


class _OfTVM(Pass[IRModule], init=False):
    """A pass of TVM, which keeps its function in C++: it cannot be pickled."""

    target: Any
    native: bool = True

    @property
    def all_names(self) -> tuple[str, ...]:
        """The names that select the pass, with that of TVM."""
        return tuple(dict.fromkeys([*super().all_names, str(self.target.info.name)]))

    def own_cache_key(self, ctx: PassContext) -> str | None:
        """Return None if the result depends on an ambient context or target of TVM."""
        return super().own_cache_key(ctx) if ambient().is_empty() else None

    def merged_with(self, following: Sequence[Pass[IRModule]]) -> "_MergedPass | None":
        """Return a pass that runs all of them in a few calls of threads.

        None if there is a limit, or if it is recorded which of them changes the module.
        """
        passes = [self, *(pass_ for pass_ in following if isinstance(pass_, _OfTVM))]
        if len(passes) <= len(following) or not can_merge_passes():
            return None
        return _MergedPass(PassInfo(0, ", ".join(pass_.info.name for pass_ in passes)), [_step(one) for one in passes])

    def __reduce__(self) -> Never:
        """Refuse to be pickled; a registered pass is sent by name.

        Raises:
            ExecutorError: always.

        """
        raise ExecutorError(
            f"TVM cannot write its pass {self.info.name!r}; use a registered pass, such as "
            f"apass.get_pass('tvm.relax.{self.info.name}'), which is sent by name"
        )


class TVMModulePass(_OfTVM, ModulePass[IRModule]):
    """A pass of TVM that runs on the whole module, in a worker thread.

    If it is a function pass, functions with a true `SkipOptimization` stay as they are. If nothing changed, the result
    is the input itself.

    Parameters:
        target: the pass of TVM.
        info: level, name and requirements; by default those of `target`.
        exclusive: whether no other exclusive pass may run at the same time: TE, and what calls it, have global state.

    """

    def __init__(self, target: Any, info: PassInfo | None = None, *, exclusive: bool = True) -> None:
        self.target = target
        """The pass of TVM."""
        self.info = info_of(target) if info is None else info
        self.exclusive = exclusive
        """Whether no other exclusive pass may run at the same time."""
        self.merges = not exclusive

    async def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Run the pass in a worker thread.

        Raises:
            AdapterError: if `mod` is no module of TVM, or for any error of TVM.

        """
        check_module(self.info.name, mod)
        return await run_whole_pass(self.target, mod, ctx, exclusive=self.exclusive)


class TVMIsolatedPass(TVMModulePass, init=False):
    """A pass of TVM that may end its process, and therefore runs in a worker process.

    Only the worker ends then, and the run fails with WorkerLostError. The pass runs in this process if the worker would
    hide something: TVM's ambient context or target, or passes inside it that instruments are to see.
    """

    executor: Any = "process"

    def transform(self, mod: IRModule, ctx: PassContext) -> IRModule | Awaitable[IRModule]:
        """Run the pass in a worker process, or in a thread if needed."""
        has_passes = isinstance(self.target, tvm.transform.ModulePass)
        if ambient().is_empty() and not (has_passes and ctx.instruments):
            return super().transform(mod, ctx)
        here = TVMModulePass(self.target, self.info, exclusive=self.exclusive)
        here.timeout, here.on_error = self.timeout, self.on_error
        return here.transform(mod, ctx)

    def __reduce__(self) -> Any:
        """Return what makes the registered pass, by its name."""
        return get_pass, (f"{CONFIG_PREFIX}relax.{self.target.info.name}",)


class TVMFunctionPass(_OfTVM, FunctionPass[IRModule, BaseFunc]):
    """A pass of TVM that runs on one function at a time, in worker threads.

    If nothing looks at single functions, such as a hook, a store or a limit, it runs on groups of them.

    Parameters:
        target: the pass of TVM, which may use the TIR functions of the module beside the function.
        info: level, name and requirements; by default those of `target`.

    """

    executor: Any = "thread"
    merges: bool = True

    def __init__(self, target: Any, info: PassInfo | None = None) -> None:
        self.target = target
        """The pass of TVM."""
        self.info = info_of(target) if info is None else info

    async def transform(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Run the pass on groups of functions, or on each function.

        Raises:
            AdapterError: if `mod` is no module of TVM, or for any error of TVM.

        """
        check_module(self.info.name, mod)
        with captured(self.info.name, ctx):
            if not self.is_observed():
                # Any error: each function then runs alone, and the one that fails raises its own.
                with suppress(Exception):
                    return await run_steps([_step(self)], mod, ctx)
            return await super().transform(mod, ctx)

    def runs_inline(self, mod: IRModule) -> bool:
        """Return whether the module is small."""
        return ADAPTER.is_small(mod)

    def transform_function(self, func: BaseFunc, mod: IRModule, ctx: PassContext) -> BaseFunc:
        """Run the pass on a module of `func`, and of what it may call.

        Raises:
            AdapterError: for any error of TVM.

        """
        name = _name_of(func, mod)
        try:
            result = ADAPTER.get(run_plain(self.target, part_of(mod, [name], self.kind), ctx), name)
        except KeyError:
            message = f"pass {self.info.name!r} of TVM removed function {name!r}; a function pass cannot"
            raise PassResultError(message) from None
        return func if ADAPTER.equal(result, func) else result


class TVMPrimFuncPass(TVMFunctionPass, init=False):
    """A `TVMFunctionPass` over TIR functions."""

    kind: ClassVar[FunctionKind] = "prim_func"


class _MergedPass(ModulePass[IRModule]):
    """Consecutive passes of TVM that are safe in several threads at once."""

    def __init__(self, info: PassInfo, steps: Sequence[Step]) -> None:
        self.info = info
        self._steps = steps

    async def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Run the passes in order."""
        check_module(self.info.name, mod)
        # TVM itself selects the passes inside of a pass.
        expect_pass_names(ctx.disabled_pass | ctx.required_pass)
        with captured(self.info.name, ctx):
            return await run_steps(self._steps, mod, ctx)


def _step(pass_: _OfTVM) -> Step:
    return Step(pass_.target, pass_.kind if isinstance(pass_, TVMFunctionPass) else None)


def _name_of(func: BaseFunc, mod: IRModule) -> str:
    """Return the name of a function of a module."""
    run = current_run()
    if run is not None and run.function is not None:
        return run.function
    return next(name for name, other in ADAPTER.functions(mod) if other.same_as(func))


def info_of(target: Any) -> PassInfo:
    """Return the metadata of a pass of TVM."""
    info = target.info
    return PassInfo(int(info.opt_level), str(info.name), [str(name) for name in info.required])


def check_module(name: str, mod: object) -> None:
    """Raise AdapterError unless `mod` is a module of TVM."""
    if not isinstance(mod, tvm.IRModule):
        raise AdapterError(
            f"pass {name!r} takes a tvm.IRModule, got {type(mod).__name__}; import a model into TVM first, "
            "with the pass tvm.FromONNX or `apass convert`"
        )


def make_pass(target: Any, info: PassInfo | None = None) -> Pass[IRModule]:
    """Return a pass of TVM, which is no Sequential, as a pass of apass.

    Its `info` is by default that of `target`.
    """
    if is_fatal(target):
        return TVMIsolatedPass(target, info)
    if is_local(target):
        if isinstance(target, _relax.transform.FunctionPass):
            return TVMFunctionPass(target, info)
        if isinstance(target, _tirx.transform.PrimFuncPass):
            return TVMPrimFuncPass(target, info)
    return TVMModulePass(target, info, exclusive=not is_concurrent(target))


def from_tvm(pass_: Any) -> Pass[IRModule]:
    """Return a pass of TVM as a pass of apass.

    - A `tvm.transform.Sequential` becomes an `apass.Sequential` of its passes.
    - A function pass of TVM's own in C++ runs on one function at a time, concurrently in worker threads.
    - `FoldConstant` of Relax runs in a worker process: a division by zero ends it.
    - Any other pass runs on the whole module in a worker thread. The hooks of instruments are also called around the
      passes that it runs inside, such as those of `tvm.relax.get_pipeline()`.

    The level, the selection of passes and the config options `tvm.*` of the context are those of TVM's `PassContext`
    in the thread.

    Raises:
        TypeError: if `pass_` is no pass of TVM.

    >>> from tvm import relax
    >>> pass_ = from_tvm(relax.transform.EliminateCommonSubexpr())
    >>> pass_.info.name
    'EliminateCommonSubexpr'

    """
    if not isinstance(pass_, tvm.transform.Pass):
        raise TypeError(f"from_tvm takes a tvm.transform.Pass, got {pass_!r}; call the function that makes the pass")
    if isinstance(pass_, tvm.transform.Sequential):
        info = info_of(pass_)
        return Sequential(
            [from_tvm(child) for child in pass_.passes], info.opt_level, info.name, required=info.required
        )
    return make_pass(pass_)


def to_tvm(pass_: Pass[IRModule]) -> Any:
    """Return a pass of apass as a `tvm.transform.ModulePass`, for a pipeline of TVM.

    The pass may await. If the pipeline runs inside of apass (see `from_tvm`), it runs in the same event loop, in the
    current context. Otherwise it runs in an event loop of its own, with level, selection and config of TVM's
    `PassContext`. A pipeline of TVM that is called in the thread of an event loop would block it: an AdapterError.

    Raises:
        TypeError: if `pass_` is no pass of apass.

    """
    if not isinstance(pass_, Pass):
        raise TypeError(f"to_tvm takes a pass of apass, got {pass_!r}")

    _register_errors()

    def transform(mod: IRModule, tvm_ctx: Any) -> IRModule:
        call = current_call()
        if call is not None:
            result = call.run_nested(pass_, mod)
        elif _in_worker_thread():
            result = from_thread.run(pass_, mod)
        else:
            ctx = PassContext(
                int(tvm_ctx.opt_level),
                map(str, tvm_ctx.required_pass),
                map(str, tvm_ctx.disabled_pass),
                config={f"{CONFIG_PREFIX}{key}": _plain(value) for key, value in tvm_ctx.config.items()},
            )
            result = anyio.run(_run, pass_, mod, ctx)
        if not isinstance(result, tvm.IRModule):
            raise PassResultError(f"pass {pass_.info.name!r} returned {result!r}, expected a tvm.IRModule")
        return result

    info = tvm.transform.PassInfo(pass_.info.opt_level, pass_.info.name, list(pass_.info.required))
    return tvm.ir.transform._ffi_transform_api.MakeModulePass(transform, info)


@cache
def _register_errors() -> None:
    """Let TVM raise the errors of apass as they are.

    It makes a RuntimeError of an unknown one.
    """
    classes = [ApassError]
    for kind in classes:
        classes += kind.__subclasses__()
        tvm_ffi.error.register_error(kind.__name__, kind)


def _plain(value: Any) -> Any:
    """Return the value of a config option of TVM."""
    return getattr(value, "value", value)


async def _run(pass_: Pass[IRModule], mod: IRModule, ctx: PassContext) -> IRModule:
    async with ctx:
        # TVM itself applies most of the names.
        expect_pass_names(ctx.disabled_pass | ctx.required_pass)
        return await pass_(mod)


def _in_worker_thread() -> bool:
    """Return whether the caller runs in a worker thread of an event loop.

    Raises:
        AdapterError: if it runs in the thread of an event loop itself.

    """
    try:
        from_thread.run_sync(int)
    except RuntimeError:
        pass
    else:
        return True
    try:
        anyio.get_current_task()
    except RuntimeError:
        return False
    raise AdapterError(
        "a pipeline of TVM with a pass of apass would block the event loop; write "
        "`await apass.from_tvm(pipeline)(mod)`, or call the pipeline with anyio.to_thread.run_sync"
    )
