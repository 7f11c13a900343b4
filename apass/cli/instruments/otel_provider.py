"""The provider of spans, set up from OpenTelemetry's environment variables.

Needs the package opentelemetry-sdk.
"""

import os
from importlib.metadata import entry_points

from apass.cli.inputs import InputError
from apass.errors import MissingExtraError, did_you_mean

try:
    from opentelemetry import context, trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as _error:
    raise MissingExtraError(
        f"--otel needs OpenTelemetry and its SDK ({_error}): pip install 'apass[otel]' opentelemetry-sdk"
    ) from _error

__all__ = ["adopt_parent", "flush", "provide"]

_EXPORTERS = "OTEL_TRACES_EXPORTER"


def provide() -> None:
    """Set up a provider with the exporters that `OTEL_TRACES_EXPORTER` names.

    A provider that is already set is kept.

    Raises:
        InputError: if the variable is empty, or names an exporter that is not installed.

    """
    # A proxy is returned until a provider is set. OpenTelemetry does not allow replacing one: the wrapper program
    # `opentelemetry-instrument` sets its own before this code runs.
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return
    names = [name.strip() for name in os.environ.get(_EXPORTERS, "").split(",") if name.strip()]
    if not names:
        raise InputError(f"--otel needs exporters of spans; set {_EXPORTERS}, for example to otlp or console")
    exporters = [_exporter(name) for name in names]
    provider = TracerProvider()
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def adopt_parent() -> None:
    """Make the span that `TRACEPARENT` names the parent of this run's spans.

    If the variable is not set, do nothing.
    """
    carrier = {name.lower(): os.environ[name] for name in ("TRACEPARENT", "TRACESTATE") if name in os.environ}
    if carrier:
        context.attach(TraceContextTextMapPropagator().extract(carrier))


def flush() -> None:
    """Send the remaining spans."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.force_flush()


def _exporter(name: str) -> SpanExporter:
    installed = entry_points(group="opentelemetry_traces_exporter")
    if name not in installed.names:
        hint = did_you_mean(name, installed.names, listing="installed are ")
        raise InputError(f"{_EXPORTERS} names {name!r}, which is not installed{hint}")
    exporter = installed[name].load()()
    if not isinstance(exporter, SpanExporter):
        raise InputError(f"{_EXPORTERS} names {name!r}, which creates {exporter!r}; expected a SpanExporter")
    return exporter
