"""`OpenTelemetryInstrument`: OpenTelemetry spans (requires `apass[otel]`)."""

from threading import Lock
from typing import Any, Final

import anyio

from apass.core.info import PassInfo
from apass.core.instrument import pass_instrument
from apass.core.position import PositionTracker
from apass.core.run import Run, current_run
from apass.errors import MissingExtraError

try:
    from opentelemetry import context as otel_context
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Status, StatusCode, Tracer
except ImportError as _error:
    raise MissingExtraError(
        f"OpenTelemetryInstrument needs opentelemetry-api ({_error}): pip install 'apass[otel]'"
    ) from _error

__all__ = ["OpenTelemetryInstrument"]


@pass_instrument
class OpenTelemetryInstrument:
    """Creates a span for each run of a module and for each pass in it.

    The parent of a span is the current span when the pass starts: that of the calling pass, in whatever task, or a span
    of the user. While a pass runs, its span is current, so spans of libraries that the pass uses become its children.
    An error is recorded on each span that it ends. A span of a cancelled pass has `apass.cancelled`.

    Attributes: `apass.module`, `apass.pass`, `apass.position` (as in `Position.text`), `apass.opt_level`,
    `apass.changed`, and `apass.function` on the spans of functions. The names of spans are `module NAME`, the name of
    the pass, and `PASS NAME`. A module without a name has no span of its own.

    Parameters:
        tracer: creates the spans; by default the tracer `apass` of the current provider.
        functions: also create a span for each function that a pass processes.

    """

    reads_modules: Final = False
    """The hooks do not read modules."""

    not_for_worker: Final = "its spans are exported by this process, and workers have no exporter"
    """The reason why whole modules in an executor cannot be observed."""

    def __init__(self, tracer: Tracer | None = None, *, functions: bool = False) -> None:
        self._tracer = trace.get_tracer("apass") if tracer is None else tracer
        self._functions = functions
        self._positions = PositionTracker()
        self._open: dict[Run, _SpanState] = {}
        self._lock = Lock()

    def run_before_pass(self, mod: object, info: PassInfo) -> None:
        """Start the span of a pass, after that of its module if it is outermost."""
        run = current_run()
        if run is None or run in self._open:
            return
        before = otel_context.get_current()
        module = None
        if run.module is not None and (run.parent is None or run.parent.module != run.module):
            module = self._tracer.start_span(f"module {run.module}", attributes={"apass.module": run.module})
            otel_context.attach(trace.set_span_in_context(module))
        attributes: dict[str, Any] = {"apass.pass": info.name, "apass.opt_level": info.opt_level}
        attributes["apass.position"] = self._positions.begin(run).text
        self._begin(run, info.name, attributes, _SpanState(mod, before, module))

    def run_after_pass(self, mod: object, info: PassInfo) -> None:
        """End the span of a pass."""
        self._end(current_run(), mod, None)

    def run_after_pass_failed(self, mod: object, info: PassInfo, error: BaseException) -> None:
        """End the span of a failed pass, and record the error."""
        self._end(current_run(), mod, error)

    def run_before_function(self, func: Any, run: Run) -> None:
        """Start the span of a function."""
        if self._functions and run not in self._open:
            attributes = {"apass.pass": run.info.name, "apass.function": run.function}
            state = _SpanState(func, otel_context.get_current(), None)
            self._begin(run, f"{run.info.name} {run.function}", attributes, state)

    def run_after_function(self, func: Any, result: Any, run: Run) -> None:
        """End the span of a function."""
        self._end(run, result, None)

    def run_after_function_failed(self, func: Any, run: Run, error: BaseException) -> None:
        """End the span of a failed function, and record the error."""
        self._end(run, func, error)

    def _begin(self, run: Run, name: str, attributes: dict[str, Any], state: "_SpanState") -> None:
        if run.module is not None:
            attributes["apass.module"] = run.module
        state.span = self._tracer.start_span(name, attributes=attributes)
        otel_context.attach(trace.set_span_in_context(state.span))
        with self._lock:
            self._open[run] = state

    def _end(self, run: Run | None, result: object, error: BaseException | None) -> None:
        with self._lock:
            state = None if run is None else self._open.pop(run, None)
        if state is None:
            return
        if error is None:
            state.span.set_attribute("apass.changed", result is not state.subject)
        for span in (state.span, state.module):
            if span is not None:
                _finish(span, error)
        # Attach the old context instead of detaching the token: a token is valid only in the context that created it,
        # and hooks may be called in different ones.
        otel_context.attach(state.before)


class _SpanState:
    """A span that has not ended, with the context to restore."""

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
