"""The passes of onnx_ir, those of `rewrites`, and the pipeline `onnx.Default`.

Each pass of `onnx_ir.passes.common` is registered as `onnx.NAME`. So are our own: `Simplify`, `FuseNodes` and
`EvaluateConstants`.
"""

import inspect
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from threading import get_native_id
from time import perf_counter
from typing import Any, Final, Literal, cast

from anyio import CapacityLimiter, from_thread, to_thread
from anyio.lowlevel import RunVar

from apass.core.adapter import IRAdapter, adapter_for
from apass.core.context import PassContext, waiting_for
from apass.core.executor import in_executor
from apass.core.pass_info import PassInfo
from apass.core.remarks import Remark
from apass.core.run import current_module_name
from apass.errors import AdapterError, ApassError, MissingExtraError, VerifyError
from apass.passes.in_place import InPlacePass
from apass.passes.registry import get_pass, provide_pass
from apass.passes.sequential import Sequential

try:
    import onnx
    import onnx_ir as ir
    import onnx_ir.passes.common as library
except ImportError as _error:
    raise MissingExtraError(
        f"the passes onnx.* need onnx and onnx-ir ({_error}): pip install 'apass[onnx]'"
    ) from _error

from apass.adapters.onnx import count_nodes
from apass.adapters.onnx.passes.evaluation import TIME_LIMIT, EvaluateConstants
from apass.adapters.onnx.passes.limits import LIMITS, limited_options
from apass.adapters.onnx.passes.log_capture import caught_errors
from apass.adapters.onnx.passes.table import DEFAULT, TABLE, PassEntry
from apass.adapters.onnx.passes.workarounds import (
    CHANGES_INTERFACE,
    DRY_RUNS,
    GUARDS,
    MAY_BREAK_RULES,
    NEEDS,
    SKIP,
    UNREPORTED,
    cause_of,
    keep_output_types,
)
from apass.adapters.onnx.rewrites import FusePass, SimplifyPass
from apass.adapters.onnx.rewrites.engine import MAX_BYTES
from apass.adapters.onnx.traversal import is_small
from apass.adapters.onnx.validation import check_model, quoted
from apass.util.text import short_reason

__all__ = ["DEFAULT", "TABLE", "OnnxPass", "PassEntry"]

PREFIX: Final = "onnx."
"""The prefix of the names of these passes."""

_THREADS: RunVar[CapacityLimiter] = RunVar("apass_onnx_threads")


class OnnxPass(InPlacePass[ir.Model]):
    """A pass of onnx_ir, run on a private copy of the model.

    - The pass runs in a thread if the model is large, otherwise on the event loop. An executor needs no thread.
    - The input model is not changed. If the pass changes nothing, the result is the input model itself.
    - Errors that onnx_ir only logs are emitted as warnings to `diag_ctx` of the context.
    - An invalid result, or a result with other inputs or outputs, raises VerifyError.
    - Any other error of onnx_ir raises AdapterError, with the error as its cause.
    - Work that would be exponential is limited by options.

    Parameters:
        target: the class of the pass in onnx_ir.
        info: level and name of the pass.
        options: keyword arguments of the class, and limits (`LIMITS`).

    """

    cacheable: bool | Literal["module"] = True
    version: str = f"onnx {onnx.__version__}, onnx-ir {ir.__version__}"

    def __init__(self, target: type[ir.passes.PassBase], info: PassInfo, options: Mapping[str, Any]) -> None:
        self.info = info
        self.target = target
        """The class of the pass in onnx_ir. Its instances have state, so each run creates one."""
        self.options: dict[str, Any] = dict(options)
        """Keyword arguments of the class, and limits."""

    @property
    def keeps_input(self) -> bool:
        """Whether the input must stay as it is, for the check of the result."""
        return self._name in MAY_BREAK_RULES or super().keeps_input

    @property
    def _name(self) -> str:
        return self.info.name.removeprefix(PREFIX)

    @property
    def _source(self) -> str:
        """The class of the pass and its library, for messages."""
        library = "apass" if self.target.__module__.startswith("apass.") else "onnx_ir"
        return f"{self.target.__name__} of {library}"

    def has_work(self, mod: ir.Model) -> bool:
        """Return False if a scan of the model shows that the pass would change nothing."""
        return self._name not in NEEDS or NEEDS[self._name](mod)

    def transform_module(self, mod: ir.Model, ctx: PassContext) -> ir.Model | Awaitable[ir.Model]:
        """Run the pass on a private copy of `mod`.

        Raises:
            AdapterError: if `mod` is not an `onnx_ir.Model`.

        """
        check_model(f"pass {self.info.name!r}", mod)
        is_slow_scan = self._name in DRY_RUNS
        if not is_slow_scan and not self.has_work(mod):
            return mod
        if in_executor() or is_small(mod):
            return mod if is_slow_scan and not self.has_work(mod) else self._apply(mod, ctx)
        return self._in_thread(mod, ctx, is_slow_scan)

    async def _in_thread(self, mod: ir.Model, ctx: PassContext, is_slow_scan: bool) -> ir.Model:
        def work() -> ir.Model:
            start = perf_counter()
            try:
                return mod if is_slow_scan and not self.has_work(mod) else self._apply(mod, ctx)
            finally:
                ctx.report_work(f"thread {get_native_id()}", start, perf_counter())

        with waiting_for("its worker thread"):
            return await to_thread.run_sync(work, limiter=_threads())

    def _apply(self, mod: ir.Model, ctx: PassContext) -> ir.Model:
        """Return the new model, or `mod` if nothing changed."""
        counts = ctx.wants_remarks or ctx.wants_statistics
        nodes, interface = count_nodes(mod) if counts else 0, _interface(mod)
        with caught_errors() as warnings:
            # This pass never suspends.
            result = cast("ir.Model", self.change_copy(mod, ctx))
        if result is not mod:
            self._check(mod, interface, result)
            if counts:
                _report_counts(nodes, count_nodes(result), ctx)
        for text in warnings:
            ctx.diag_ctx.warning(f"pass {self.info.name!r}: {text}")
        return result

    def transform_in_place(self, mod: ir.Model, ctx: PassContext) -> bool:
        """Run the pass of onnx_ir on a private model, and return whether it changed.

        Raises:
            AdapterError: for any error of onnx_ir, and if the work would exceed a limit.

        """
        _check_cancelled()
        try:
            options, notes = limited_options(self._name, mod, self.options)
            changed = self._run(mod, options)
        except ApassError:
            raise
        except Exception as error:
            # onnx_ir raises errors of many types, such as AssertionError, for models that its passes do not support.
            cause = cause_of(error)
            where = f"{self._source} failed on model {quoted(current_module_name() or 'without name')}"
            raise AdapterError(f"{where}: {short_reason(cause)}") from cause
        _check_cancelled()
        for note in notes:
            ctx.diag_ctx.warning(f"pass {self.info.name!r}: {note}")
        return changed

    def _run(self, mod: ir.Model, options: Mapping[str, Any]) -> bool:
        name = self._name
        all_props = [mod.graph.metadata_props, *(func.metadata_props for func in mod.functions.values())]
        marks = [(props, props[SKIP]) for props in all_props if SKIP in props]
        undos = [keep_output_types(mod), *([GUARDS[name](mod)] if name in GUARDS else [])]
        unreported = UNREPORTED.get(name)
        before = None if unreported is None else unreported(mod)
        changed = self.target(**options)(mod).modified
        for undo in undos:
            changed |= undo()
        for props, mark in marks:
            props[SKIP] = mark
        return changed or (unreported is not None and unreported(mod) != before)

    def _check(self, mod: ir.Model, interface: str, result: ir.Model) -> None:
        """Check the interface of the result, and its rules if the pass may break some."""
        if self._name not in CHANGES_INTERFACE and interface != _interface(result):
            raise VerifyError(
                f"{self._source} changed the inputs and outputs of the model from {interface} to {_interface(result)}"
            )
        if self._name not in MAY_BREAK_RULES:
            return
        adapter = adapter_for(result)
        try:
            adapter.verify(result)
        except VerifyError as error:
            # If the input was invalid too, the pass is not the cause.
            if not _is_valid(mod, adapter):
                return
            caution = TABLE[self._name].caution if self._name in TABLE else ""
            hint = f" ({caution[0].lower()}{caution[1:]})" if caution else ""
            raise VerifyError(f"{self._source} returned an invalid model for a valid one{hint}: {error}") from error


def _check_cancelled() -> None:
    """Raise if the run was cancelled; in a worker thread, which cannot be interrupted."""
    with suppress(RuntimeError):  # not in a worker thread
        from_thread.check_cancelled()


def _report_counts(before: int, after: int, ctx: PassContext) -> None:
    message = f"{before} nodes before, {after} after"
    ctx.remark(Remark.analysis("NodeCount", message, before=before, after=after))
    ctx.statistic("changed")
    if before > after:
        ctx.statistic("nodes removed", before - after)


def _threads() -> CapacityLimiter:
    """Return the thread limiter of this event loop, which allows one thread."""
    # Passes hold the GIL all the time. A second thread would make nothing faster, and would double the time that the
    # event loop waits for the GIL.
    try:
        return _THREADS.get()
    except LookupError:
        _THREADS.set(CapacityLimiter(1))
        return _THREADS.get()


def _interface(mod: ir.Model) -> str:
    return f"{[value.name for value in mod.graph.inputs]} -> {[value.name for value in mod.graph.outputs]}"


def _is_valid(mod: ir.Model, adapter: IRAdapter[ir.Model, Any]) -> bool:
    try:
        adapter.verify(mod)
    except VerifyError:
        return False
    return True


def _provide(name: str, target: type[ir.passes.PassBase]) -> None:
    """Register a pass of onnx_ir, with its limits as options."""
    entry = TABLE.get(name) or PassEntry(0, inspect.cleandoc(target.__doc__ or name).partition("\n")[0])
    info = PassInfo(entry.opt_level, f"{PREFIX}{name}")
    limits = [
        inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=int)
        for option, default in LIMITS.get(name, {}).items()
    ]
    parameters = inspect.signature(target, eval_str=True).parameters.values()

    def factory(**options: Any) -> OnnxPass:
        return OnnxPass(target, info, options)

    doc = f"{entry.doc}\n\n{entry.caution}".strip()
    provide_pass(info.name, options=[*parameters, *limits], doc=doc)(factory)


def _evaluate_constants(*, max_bytes: int = MAX_BYTES, time_limit: float = TIME_LIMIT) -> EvaluateConstants:
    info = PassInfo(TABLE["EvaluateConstants"].opt_level, f"{PREFIX}EvaluateConstants")
    return EvaluateConstants(info, max_bytes=max_bytes, time_limit=time_limit)


_evaluate_constants.__doc__ = f"{TABLE['EvaluateConstants'].doc}\n\n{TABLE['EvaluateConstants'].caution}"


def _default() -> Sequential[ir.Model]:
    """Make a model smaller, with the same meaning and the same inputs and outputs."""
    passes = [get_pass(f"{PREFIX}{name}") for name in DEFAULT]
    return Sequential(passes, name=f"{PREFIX}Default")


def _register_all() -> None:
    for class_name in library.__all__:
        _provide(class_name.removesuffix("Pass"), getattr(library, class_name))
    _provide("Simplify", SimplifyPass)
    _provide("FuseNodes", FusePass)
    provide_pass(f"{PREFIX}EvaluateConstants")(_evaluate_constants)
    provide_pass(f"{PREFIX}Default")(_default)


_register_all()
