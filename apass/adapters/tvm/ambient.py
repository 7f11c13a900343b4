"""TVM's own context and target around a run.

An example is `with tvm.target.Target("llvm"):`. TVM keeps them for each thread, and its passes run in worker threads.
What the thread of the event loop has when a pass starts is therefore entered in the worker thread as well.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from apass.adapters.tvm.library import tvm
from apass.core.context import PassContext
from apass.core.diagnostics import Diagnostic, DiagnosticLevel
from apass.core.run import current_module_name

__all__ = ["Ambient", "ambient", "captured"]

_DEFAULT_LEVEL: Final = 2
"""The level of the default context of TVM."""


@dataclass(frozen=True, slots=True)
class Ambient:
    """The context and the target of TVM in a thread."""

    context: Any
    """The `tvm.transform.PassContext`; the default one if none was entered."""
    target: Any
    """The `tvm.target.Target`, or None."""

    disabled: frozenset[str]
    """The passes that the context disables."""
    required: frozenset[str]
    """The passes that the context requires."""
    config: Mapping[str, Any]
    """The config of the context."""

    @classmethod
    def of_thread(cls) -> "Ambient":
        """Return what this thread has."""
        context = tvm.transform.PassContext.current()
        disabled, required = (frozenset(map(str, names)) for names in (context.disabled_pass, context.required_pass))
        target = tvm.target.Target.current(allow_none=True)
        return cls(context, target, disabled, required, dict(context.config))

    def is_empty(self) -> bool:
        """Return whether passes run as without it."""
        return self.target is None and not (self.disabled or self.required or self.config)

    def unused(self, ctx: PassContext) -> str:
        """Return what passes do not use, and what to do; "" if there is nothing."""
        if len(self.context.instruments):
            return "the instruments of TVM's PassContext are not called; give instruments to apass.PassContext"
        level = int(self.context.opt_level)
        if level not in (_DEFAULT_LEVEL, ctx.opt_level):
            return f"the level {level} of TVM's PassContext is not used; set apass.PassContext(opt_level={level})"
        return ""


_CAPTURED: ContextVar[Ambient | None] = ContextVar("apass_tvm_ambient", default=None)


def ambient() -> Ambient:
    """Return what was captured for this pass, or else what this thread has."""
    return _CAPTURED.get() or Ambient.of_thread()


@contextmanager
def captured(name: str, ctx: PassContext) -> Generator[None]:
    """Use what this thread has in all threads that work for the pass `name`."""
    if _CAPTURED.get() is not None:
        yield
        return
    found = ambient()
    if text := found.unused(ctx):
        message = f"pass {name!r}: {text}"
        ctx.diag_ctx.emit(Diagnostic(DiagnosticLevel.WARNING, message, None, name, None, current_module_name()))
    token = _CAPTURED.set(found)
    try:
        yield
    finally:
        _CAPTURED.reset(token)
