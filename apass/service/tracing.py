"""`ServiceTracing`: a span of OpenTelemetry for each job and its passes."""

from typing import Any, Final

import anyio

from apass.errors import MissingExtraError
from apass.service.jobs import ENDED, JobEvent, JobRecord, JobState
from apass.service.optimizer import Optimizer

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Status, StatusCode, Tracer
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as _error:
    raise MissingExtraError(f"traces need opentelemetry-api ({_error}): pip install 'apass[otel]'") from _error

__all__ = ["ServiceTracing"]

_PROPAGATOR: Final = TraceContextTextMapPropagator()


class ServiceTracing:
    """Creates spans for jobs, wherever they run.

    The trace continues that of the caller, by its `traceparent`.

    Use it as an observer: `Optimizer(..., observers=[ServiceTracing()])`.

    - `job NAME` spans the time from acceptance to end, with `apass.job`, `apass.tenant`, `apass.kind`,
      `apass.pipeline`, `apass.state`, and an event for each attempt.
    - Each pass has a span, with `apass.pass`, `apass.position` and `apass.changed`. Function bodies have one if the job
      was submitted with `functions`.

    Parameters:
        tracer: creates the spans; by default the tracer `apass` of the current provider.

    """

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = trace.get_tracer("apass") if tracer is None else tracer
        self._jobs: dict[str, _JobSpans] = {}

    async def run(self, optimizer: Optimizer) -> None:
        """End the spans of unfinished jobs when the optimizer ends."""
        try:
            await anyio.sleep_forever()
        finally:
            for spans in self._jobs.values():
                spans.end(None)
            self._jobs.clear()

    def on_event(self, record: JobRecord, event: JobEvent) -> None:
        """Start or end a span."""
        spans = self._jobs.get(record.id)
        if spans is None:
            if record.state in ENDED and event.kind != "state":
                return
            spans = self._jobs[record.id] = _JobSpans(self._tracer, record)
        spans.on_event(record, event)
        if event.kind == "state" and record.state in ENDED:
            spans.end(_nanoseconds(event.time))
            del self._jobs[record.id]


class _JobSpans:
    """The open spans of a job."""

    def __init__(self, tracer: Tracer, record: JobRecord) -> None:
        self._tracer = tracer
        parent = _PROPAGATOR.extract({} if record.trace is None else {"traceparent": record.trace}, Context())
        attributes = {
            "apass.job": record.id,
            "apass.tenant": record.tenant,
            "apass.kind": record.kind,
            "apass.pipeline": record.pipeline,
        }
        start = _nanoseconds(record.created)
        self._job = tracer.start_span(f"job {record.name}", parent, attributes=attributes, start_time=start)
        self._open: dict[tuple[str, str | None], Span] = {}
        """The spans of passes by position, and those of bodies by position and function."""

    def on_event(self, record: JobRecord, event: JobEvent) -> None:
        at = _nanoseconds(event.time)
        if event.kind == "state":
            if record.state is JobState.RUNNING:
                # What an attempt has begun that was lost does not end.
                self._end_passes(at)
                self._job.add_event("attempt", {"apass.attempt": record.attempts}, timestamp=at)
            elif record.state in ENDED:
                self._job.set_attribute("apass.state", str(record.state))
                if record.failure is not None:
                    self._job.set_status(Status(StatusCode.ERROR, f"{record.failure.kind}: {record.failure.message}"))
        elif event.kind == "started":
            self._start(event, at)
        elif event.kind in ("finished", "failed"):
            span = self._open.pop(_key(event.data), None)
            if span is not None:
                if event.kind == "failed":
                    span.set_status(Status(StatusCode.ERROR, str(event.data.get("error", ""))))
                span.set_attribute("apass.changed", bool(event.data.get("changed")))
                span.end(at)

    def end(self, at: int | None) -> None:
        """End all spans."""
        self._end_passes(at)
        self._job.end(at)

    def _start(self, event: JobEvent, at: int) -> None:
        path, function = _key(event.data)
        above = path.rpartition("/")[0]
        caller = event.data.get("function")
        # A body belongs to its pass, and a pass to the body or the pass that has called it.
        keys = [(path, None)] if function is not None else [(above, caller), (above, None)]
        parent = next((self._open[key] for key in keys if key in self._open), self._job)
        name = str(event.data.get("pass", ""))
        attributes: dict[str, Any] = {"apass.pass": name, "apass.position": path}
        if caller is not None:
            attributes["apass.function"] = caller
        span = self._tracer.start_span(
            name if function is None else f"{name} {function}",
            trace.set_span_in_context(parent, Context()),
            attributes=attributes,
            start_time=at,
        )
        self._open[path, function] = span

    def _end_passes(self, at: int | None) -> None:
        for span in reversed(self._open.values()):
            span.end(at)
        self._open.clear()


def _key(data: Any) -> tuple[str, str | None]:
    """Return the position of a pass, and the function of a body."""
    return str(data.get("path", "")), data.get("function") if data.get("body") else None


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
