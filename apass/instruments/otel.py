"""OpenTelemetry: spans and metrics of passes (requires `apass[otel]`)."""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, Final

import anyio

from apass.core.instrument import pass_instrument
from apass.core.pass_info import PassInfo
from apass.core.position import PositionTracker
from apass.core.run import Run, current_run
from apass.errors import MissingExtraError
from apass.executors.instrument_twins import remote_run
from apass.util.checks import check_type

try:
    from opentelemetry import context as otel_context
    from opentelemetry import metrics, trace
    from opentelemetry.context import Context
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Span, Status, StatusCode, Tracer
except ImportError as _error:
    raise MissingExtraError(
        f"the instruments of OpenTelemetry need opentelemetry-api ({_error}): pip install 'apass[otel]'"
    ) from _error

__all__ = ["OpenTelemetryInstrument", "OpenTelemetryMetrics"]

_BUCKETS: Final = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 50, 100)
"""Boundaries of the histogram of durations in seconds. The default ones are meant for milliseconds."""


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

    Raises:
        TypeError: if `tracer` is no tracer of OpenTelemetry.

    """

    reads_modules: Final = False
    """The hooks do not read modules."""

    not_for_worker: Final = "its spans are exported by this process, and workers have no exporter"
    """The reason why whole modules in an executor cannot be observed."""

    def __init__(self, tracer: Tracer | None = None, *, functions: bool = False) -> None:
        check_type("tracer", tracer, Tracer | None)
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


Measurement = tuple[str, float, Mapping[str, str]]
"""The name of a metric, an amount, and the attributes."""


@pass_instrument
class OpenTelemetryMetrics:
    """Records durations and counts of passes as OpenTelemetry metrics.

    | Metric | Kind, unit | Attributes |
    |---|---|---|
    | `apass.pass.duration` | histogram, `s` | `apass.pass`, `apass.outcome`, `error.type` |
    | `apass.pass.runs` | counter, `{pass}` | `apass.pass`, `apass.outcome`, `error.type` |
    | `apass.pass.active` | up-down counter, `{pass}` | `apass.pass` |
    | `apass.function.runs` | counter, `{function}` | `apass.pass`, `apass.outcome`, `error.type` |
    | `apass.module.runs` | counter, `{module}` | `apass.outcome`, `error.type` |
    | `apass.statistic` | up-down counter, `1` | `apass.pass`, `apass.statistic` |

    The outcome is `changed`, `unchanged`, `failed` or `cancelled`. `error.type` is the type of the error that ended a
    failed run. `apass.statistic` adds up what passes count with `ctx.statistic(name, amount)`. No attribute contains
    the name of a module or function, so the number of time series does not grow with the modules.

    A duration is that of the work without hooks. Passes that contain others, such as a Sequential, are measured too. A
    module is counted when its outermost pass ends. In workers, measurements are kept until the module is finished, and
    `apass.pass.active` is not recorded.

    Parameters:
        meter: creates the metrics; by default the meter `apass` of the current provider.

    Raises:
        TypeError: if `meter` is no meter of OpenTelemetry.

    """

    reads_modules: Final = False
    """The hooks do not read modules."""

    def __init__(self, meter: Meter | None = None) -> None:
        check_type("meter", meter, Meter | None)
        self._record = _recorder(metrics.get_meter("apass") if meter is None else meter)
        self._open: dict[Run, object] = {}

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        return _WorkerMetrics

    def merge_records(self, records: Sequence[Measurement]) -> None:
        """Record the measurements of a twin."""
        for measurement in records:
            self._record(*measurement)

    def worker_lost(self, error: BaseException) -> None:
        """Record a module whose worker returned no measurements."""
        self._record_end(remote_run(), _outcome(None, None, error))

    def run_before_pass(self, mod: object, info: PassInfo) -> None:
        """Count a running pass."""
        run = current_run()
        if run is not None and run not in self._open:
            self._open[run] = mod
            self._record("apass.pass.active", 1, {"apass.pass": info.name})

    def run_after_pass(self, mod: object, info: PassInfo) -> None:
        """Record a pass that returned."""
        self._end(current_run(), mod, None)

    def run_after_pass_failed(self, mod: object, info: PassInfo, error: BaseException) -> None:
        """Record a pass that failed."""
        self._end(current_run(), mod, error)

    def run_after_function(self, func: Any, result: Any, run: Run) -> None:
        """Count a function."""
        self._record("apass.function.runs", 1, {"apass.pass": run.info.name, **_outcome(func, result, None)})

    def run_after_function_failed(self, func: Any, run: Run, error: BaseException) -> None:
        """Count a function whose body failed."""
        self._record("apass.function.runs", 1, {"apass.pass": run.info.name, **_outcome(func, func, error)})

    def on_statistic(self, run: Run | None, name: str, amount: float) -> None:
        """Add an amount to a statistic."""
        pass_name = "" if run is None else run.info.name
        self._record("apass.statistic", amount, {"apass.pass": pass_name, "apass.statistic": name})

    def _end(self, run: Run | None, result: object, error: BaseException | None) -> None:
        if run is None or run not in self._open:
            return
        outcome = _outcome(self._open.pop(run), result, error)
        self._record("apass.pass.active", -1, {"apass.pass": run.info.name})
        self._record_end(run, outcome)

    def _record_end(self, run: Run, outcome: Mapping[str, str]) -> None:
        name = {"apass.pass": run.info.name}
        self._record("apass.pass.duration", run.seconds, {**name, **outcome})
        self._record("apass.pass.runs", 1, {**name, **outcome})
        if run.parent is None or run.parent.module != run.module:
            self._record("apass.module.runs", 1, outcome)


class _WorkerMetrics(OpenTelemetryMetrics):
    """The twin in a worker, which keeps the measurements."""

    def __init__(self) -> None:
        self._measurements: list[Measurement] = []
        self._record = self._keep
        self._open = {}

    def worker_records(self) -> Sequence[Measurement]:
        """Return the measurements, for `merge_records` of the original."""
        # They arrive after the passes have ended.
        return [measurement for measurement in self._measurements if measurement[0] != "apass.pass.active"]

    def _keep(self, name: str, amount: float, attributes: Mapping[str, str]) -> None:
        self._measurements.append((name, amount, attributes))


def _recorder(meter: Meter) -> Callable[[str, float, Mapping[str, str]], None]:
    """Return a function that records a measurement."""
    duration = meter.create_histogram(
        "apass.pass.duration", "s", "Duration of a pass.", explicit_bucket_boundaries_advisory=_BUCKETS
    )
    runs = meter.create_counter("apass.pass.runs", "{pass}", "Passes that ended.")
    active = meter.create_up_down_counter("apass.pass.active", "{pass}", "Passes that run now.")
    functions = meter.create_counter("apass.function.runs", "{function}", "Functions that passes processed.")
    modules = meter.create_counter("apass.module.runs", "{module}", "Modules that were processed.")
    # Not a counter, because a pass may count a negative amount.
    statistics = meter.create_up_down_counter("apass.statistic", "1", "Statistics that passes counted.")
    methods: dict[str, Callable[..., None]] = {
        "apass.pass.duration": duration.record,
        "apass.pass.runs": runs.add,
        "apass.pass.active": active.add,
        "apass.function.runs": functions.add,
        "apass.module.runs": modules.add,
        "apass.statistic": statistics.add,
    }
    return lambda name, amount, attributes: methods[name](amount, attributes)


def _outcome(before: object, after: object, error: BaseException | None) -> dict[str, str]:
    """Return the attributes of a run that ended."""
    if error is None:
        return {"apass.outcome": "unchanged" if before is after else "changed"}
    if _is_cancellation(error):
        return {"apass.outcome": "cancelled"}
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return {"apass.outcome": "failed", "error.type": name}


def _is_cancellation(error: BaseException) -> bool:
    return isinstance(error, anyio.get_cancelled_exc_class() | GeneratorExit)


def _finish(span: Span, error: BaseException | None) -> None:
    if error is not None and _is_cancellation(error):
        span.set_attribute("apass.cancelled", True)
    elif error is not None:
        span.record_exception(error)
        span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
    span.end()
