"""The passes of `onnx_ir.passes.common` as registered passes `onnx.NAME`, and the pipeline `onnx.Default`."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from itertools import chain, islice
from threading import get_native_id
from time import perf_counter
from typing import Any, Final, Literal, cast

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from apass.core.adapter import IRAdapter, adapter_for
from apass.core.context import PassContext, waiting_for
from apass.core.diagnostics import Diagnostic, DiagnosticLevel
from apass.core.info import PassInfo
from apass.core.remarks import Remark
from apass.core.run import current_module_name
from apass.errors import AdapterError, MissingExtraError, VerifyError
from apass.passes.base import ModulePass
from apass.passes.registry import make_pass, provide_pass
from apass.passes.sequential import Sequential

try:
    import onnx
    import onnx_ir as ir
    import onnx_ir.passes.common as library
except ImportError as _error:
    raise MissingExtraError(f"the passes onnx.* need onnx and onnx-ir ({_error}): pip install apass[onnx]") from _error

from apass.adapters.onnx.passes.log_capture import caught_errors
from apass.adapters.onnx.passes.table import DEFAULT, TABLE, PassEntry
from apass.adapters.onnx.passes.workarounds import (
    CHANGES_INTERFACE,
    GUARDS,
    MAY_BREAK_RULES,
    NEEDS,
    cause_of,
    keep_output_types,
)

__all__ = ["DEFAULT", "TABLE", "OnnxPass", "PassEntry", "is_large"]

PREFIX: Final = "onnx."
"""What the names of these passes begin with."""

LARGE_NODES: Final = 64
"""A model of more nodes is worked on in a thread: a pass takes about 0.05 ms a node, and a turn of the loop 5 ms."""

LARGE_BYTES: Final = 2**22
"""So is one with more bytes of weights, which a pass may have to read."""

SKIP: Final = "SkipOptimization"
"""The mark that no pass may take away."""

_THREADS: RunVar[CapacityLimiter] = RunVar("apass_onnx_threads")


class OnnxPass(ModulePass[ir.Model]):
    """A pass of onnx_ir, run on a private copy of the model: in a thread if the model is large, else in the loop.

    The model that it is given stays as it is, and comes back itself if nothing in it changed. What onnx_ir wraps an
    error in is taken off. An error that it only logs becomes a warning in the context's `diag_ctx`. A result that
    onnx_ir got wrong, with other inputs or outputs or against the rules of ONNX, is a VerifyError, and not returned.

    Parameters:
        target: the class of the pass in onnx_ir.
        info: level and name.
        options: what the class is made with.

    """

    cacheable: bool | Literal["module"] = True
    version: str = f"onnx {onnx.__version__}, onnx-ir {ir.__version__}"

    def __init__(self, target: type[ir.passes.PassBase], info: PassInfo, options: Mapping[str, Any]) -> None:
        self.info = info
        self.target = target
        """The class of the pass in onnx_ir; its objects have state, so each run makes one."""
        self.options: dict[str, Any] = dict(options)
        """What it is made with."""

    def transform_module(self, mod: ir.Model, ctx: PassContext) -> ir.Model | Awaitable[ir.Model]:
        """Run the pass on a copy of `mod`; AdapterError, a TypeError, if that is no model of onnx_ir."""
        if not isinstance(mod, ir.Model):
            raise AdapterError(_other_model(self.info.name, mod))
        name = self.info.name.removeprefix(PREFIX)
        if name in NEEDS and not NEEDS[name](mod):
            return mod
        if is_large(mod):
            return self._in_thread(mod, ctx)
        made, warnings = self._apply(mod)
        self._report(mod, made, warnings, ctx)
        return made

    async def _in_thread(self, mod: ir.Model, ctx: PassContext) -> ir.Model:
        with waiting_for("its worker thread"):
            made, warnings = await to_thread.run_sync(self._apply_and_tell, mod, ctx, limiter=_threads())
        self._report(mod, made, warnings, ctx)
        return made

    def _apply_and_tell(self, mod: ir.Model, ctx: PassContext) -> tuple[ir.Model, list[str]]:
        """Do as `_apply`, and tell instruments which thread was at work for how long."""
        start = perf_counter()
        try:
            return self._apply(mod)
        finally:
            end = perf_counter()
            ctx.report_work(f"thread {get_native_id()}", start, end)

    def _apply(self, mod: ir.Model) -> tuple[ir.Model, list[str]]:
        """Return the new model, `mod` itself if nothing changed, and what onnx_ir complained of."""
        adapter = adapter_for(mod)
        try:
            with caught_errors() as warnings:
                made = self._on_copy(adapter.isolate(mod, [name for name, _ in adapter.functions(mod)]))
        except Exception as error:
            cause = cause_of(error)
            if cause is error:
                raise
            cause.add_note(f"raised in {self.target.__name__} of onnx_ir")
            raise cause from cause.__cause__
        if made is None or adapter.equal(mod, made):
            return mod, warnings
        self._check(mod, made, adapter)
        return made, warnings

    def _on_copy(self, made: ir.Model) -> ir.Model | None:
        """Run the pass of onnx_ir on a private copy; None if it is one that changes nothing."""
        name = self.info.name.removeprefix(PREFIX)
        pass_ = self.target(**self.options)
        notes = [made.graph.metadata_props, *(function.metadata_props for function in made.functions.values())]
        marks = [(note, note[SKIP]) for note in notes if SKIP in note]
        undo = [keep_output_types(made), *([GUARDS[name](made)] if name in GUARDS else [])]
        result = pass_(made).model
        for one in undo:
            one()
        for note, mark in marks:
            note[SKIP] = mark
        return result if pass_.changes_input or not pass_.in_place else None

    def _check(self, mod: ir.Model, made: ir.Model, adapter: IRAdapter[ir.Model, Any]) -> None:
        name = self.info.name.removeprefix(PREFIX)
        if name not in CHANGES_INTERFACE and _interface(mod) != _interface(made):
            raise VerifyError(
                f"{self.target.__name__} of onnx_ir changed the inputs and outputs of the model from "
                f"{_interface(mod)} to {_interface(made)}"
            )
        if name not in MAY_BREAK_RULES:
            return
        try:
            adapter.verify(made)
        except VerifyError as error:
            if not _is_valid(mod, adapter):
                return
            caution = TABLE[name].caution if name in TABLE else ""
            hint = f" ({caution[0].lower()}{caution[1:]})" if caution else ""
            raise VerifyError(
                f"{self.target.__name__} of onnx_ir made an invalid model of a valid one{hint}: {error}"
            ) from error

    def _report(self, mod: ir.Model, made: ir.Model, warnings: list[str], ctx: PassContext) -> None:
        """Tell the context what onnx_ir complained of, and whoever listens what became of the model."""
        name = self.info.name
        if made is not mod and (ctx.wants_remarks or ctx.wants_statistics):
            before, after = _count_nodes(mod), _count_nodes(made)
            message = f"{before} nodes before, {after} after"
            ctx.remark(Remark.analysis("NodeCount", message, before=before, after=after))
            ctx.statistic("changed")
            if before > after:
                ctx.statistic("nodes removed", before - after)
        for text in warnings:
            message = f"pass {name!r}: {text}"
            ctx.diag_ctx.emit(Diagnostic(DiagnosticLevel.WARNING, message, None, name, None, current_module_name()))


def _other_model(name: str, given: object) -> str:
    kind = f"{type(given).__module__}.{type(given).__qualname__}".removeprefix("builtins.")
    hint = "load it with apass.adapters.onnx.load_model(path)"
    if isinstance(given, onnx.ModelProto):
        hint = "give onnx_ir.from_proto(model)"
    return f"pass {name!r} works on an onnx_ir.Model, not on {kind}; {hint}"


def is_large(mod: ir.Model) -> bool:
    """Tell whether a pass over the model would hold the loop for long; it looks at no more than it must."""
    nodes = chain(mod.graph.all_nodes(), *(function.all_nodes() for function in mod.functions.values()))
    if len(list(islice(nodes, LARGE_NODES + 1))) > LARGE_NODES or len(mod.graph.initializers) > LARGE_NODES:
        return True
    tensors = (value.const_value for value in mod.graph.initializers.values())
    return sum(tensor.nbytes for tensor in tensors if tensor is not None) > LARGE_BYTES


def _threads() -> CapacityLimiter:
    """Return the limiter of this event loop: one thread, for passes never let go of the interpreter's lock.

    A second one makes nothing faster, and doubles the time that the loop has to wait for its turn.
    """
    try:
        return _THREADS.get()
    except LookupError:
        _THREADS.set(CapacityLimiter(1))
        return _THREADS.get()


def _count_nodes(mod: ir.Model) -> int:
    return len([*mod.graph.all_nodes(), *chain(*(function.all_nodes() for function in mod.functions.values()))])


def _interface(mod: ir.Model) -> str:
    return f"{[value.name for value in mod.graph.inputs]} -> {[value.name for value in mod.graph.outputs]}"


def _is_valid(mod: ir.Model, adapter: IRAdapter[ir.Model, Any]) -> bool:
    try:
        adapter.verify(mod)
    except VerifyError:
        return False
    return True


def _factory(name: str, target: type[ir.passes.PassBase]) -> Callable[..., OnnxPass]:
    """Return a function that makes the pass; it has the parameters of the class in onnx_ir."""
    entry = TABLE.get(name) or PassEntry(0, (inspect.getdoc(target) or name).partition("\n")[0])
    info = PassInfo(entry.opt_level, f"{PREFIX}{name}")

    def factory(**options: Any) -> OnnxPass:
        return OnnxPass(target, info, options)

    described = cast("Any", factory)
    described.__name__ = described.__qualname__ = name
    described.__doc__ = f"{entry.doc}\n\n{entry.caution}".strip()
    described.__signature__ = inspect.signature(target, eval_str=True)
    return factory


def _default() -> Sequential[ir.Model]:
    """Make a model smaller, with the same meaning and the same inputs and outputs."""
    passes = [make_pass(f"{PREFIX}{name}", {}) for name in DEFAULT]
    return Sequential(passes, name=f"{PREFIX}Default")


def _register_all() -> None:
    for class_name in library.__all__:
        name = class_name.removesuffix("Pass")
        provide_pass(f"{PREFIX}{name}")(_factory(name, getattr(library, class_name)))
    provide_pass(f"{PREFIX}Default")(_default)


_register_all()
