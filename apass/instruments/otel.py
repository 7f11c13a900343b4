"""`OpenTelemetryInstrument`: spans of OpenTelemetry for modules, passes and functions; needs `apass[otel]`."""

from threading import Lock
from typing import Any

import anyio

from apass.core.info import PassInfo
from apass.core.instrument import pass_instrument
from apass.core.position import Numbering
from apass.core.run import Run, current_run
from apass.errors import MissingExtraError

try:
    from opentelemetry import context as otel_context
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Status, StatusCode, Tracer
except ImportError as error:
    raise MissingExtraError(
        f"OpenTelemetryInstrument needs opentelemetry-api ({error}): pip install apass[otel]"
    ) from error

__all__ = ["OpenTelemetryInstrument"]


@pass_instrument
class OpenTelemetryInstrument:
    """Makes a span for each run of a module, for each pass in it and, if asked, for each function a pass works on.

    The parent of a span is what is current where the pass begins: the pass that calls it, in whatever task, or a span
    of the user's own around it. Within a pass its span is the current one, so spans of libraries that the pass uses
    stand beneath it. An error is recorded on each span that it ends; a cancelled one has `apass.cancelled`.

    Attributes: `apass.module`, `apass.pass`, `apass.position` (as in `Position.text`), `apass.opt_level`,
    `apass.changed`, and `apass.function` on the spans of functions. Spans are named `module NAME`, after the pass, and
    `PASS NAME`. A module without a name has no span of its own.

    Parameters:
        tracer: what makes the spans; that of the provider in force, if left out.
        functions: also make spans for functions.

    """

    def __init__(self, tracer: Tracer | None = None, *, functions: bool = False) -> None:
        self._tracer = trace.get_tracer("apass") if tracer is None else tracer
        self._functions = functions
        self._numbering = Numbering()
        self._open: dict[Run, _Open] = {}
        self._lock = Lock()

    def run_before_pass(self, mod: object, info: PassInfo) -> None:
        """Begin the span of a pass; before it that of the module, if this is the first pass on it."""
        run = current_run()
        if run is None or run in self._open:
            return
        before = otel_context.get_current()
        module = None
        if run.module is not None and (run.parent is None or run.parent.module != run.module):
            module = self._tracer.start_span(f"module {run.module}", attributes={"apass.module": run.module})
            otel_context.attach(trace.set_span_in_context(module))
        told: dict[str, Any] = {"apass.pass": info.name, "apass.opt_level": info.opt_level}
        told["apass.position"] = self._numbering.begin(run).text
        self._begin(run, info.name, told, _Open(mod, before, module))

    def run_after_pass(self, mod: object, info: PassInfo) -> None:
        """End it."""
        self._end(current_run(), mod, None)

    def run_after_pass_failed(self, mod: object, info: PassInfo, error: BaseException) -> None:
        """End it with the error."""
        self._end(current_run(), mod, error)

    def run_before_function(self, func: Any, run: Run) -> None:
        """Begin the span of a function."""
        if self._functions and run not in self._open:
            told = {"apass.pass": run.info.name, "apass.function": run.function}
            self._begin(run, f"{run.info.name} {run.function}", told, _Open(func, otel_context.get_current(), None))

    def run_after_function(self, func: Any, result: Any, run: Run) -> None:
        """End it."""
        self._end(run, result, None)

    def run_after_function_failed(self, func: Any, run: Run, error: BaseException) -> None:
        """End it with the error."""
        self._end(run, func, error)

    def _begin(self, run: Run, name: str, told: dict[str, Any], begun: "_Open") -> None:
        if run.module is not None:
            told["apass.module"] = run.module
        begun.span = self._tracer.start_span(name, attributes=told)
        otel_context.attach(trace.set_span_in_context(begun.span))
        with self._lock:
            self._open[run] = begun

    def _end(self, run: Run | None, result: object, error: BaseException | None) -> None:
        with self._lock:
            begun = None if run is None else self._open.pop(run, None)
        if begun is None:
            return
        if error is None:
            begun.span.set_attribute("apass.changed", result is not begun.subject)
        for span in (begun.span, begun.module):
            if span is not None:
                _finish(span, error)
        # Set back, not detached: a token is of use only where it was made, and a hook may be called elsewhere.
        otel_context.attach(begun.before)


class _Open:
    """A span that has begun."""

    __slots__ = ("before", "module", "span", "subject")

    span: Span

    def __init__(self, subject: object, before: Context, module: Span | None) -> None:
        self.subject = subject
        self.before = before
        self.module = module


def _finish(span: Span, error: BaseException | None) -> None:
    if isinstance(error, anyio.get_cancelled_exc_class() | GeneratorExit):
        span.set_attribute("apass.cancelled", True)
    elif error is not None:
        span.record_exception(error)
        span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
    span.end()
