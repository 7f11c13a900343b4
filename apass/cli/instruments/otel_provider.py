"""Where spans go, as the environment says: OpenTelemetry's own variables; needs opentelemetry-sdk."""

import os
from importlib.metadata import entry_points

from apass.cli.inputs import InputError
from apass.errors import MissingExtraError, did_you_mean

try:
    from opentelemetry import context, trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise MissingExtraError(
        f"--otel needs OpenTelemetry and its SDK ({error}): pip install apass[otel] opentelemetry-sdk"
    ) from error

__all__ = ["adopt_parent", "flush", "provide"]

_EXPORTERS = "OTEL_TRACES_EXPORTER"


def provide() -> None:
    """Set the provider of spans up, unless somebody has, with the exporters that `OTEL_TRACES_EXPORTER` names.

    Raises:
        InputError: if it names none, or one that is not installed.

    """
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return
    names = [name.strip() for name in os.environ.get(_EXPORTERS, "").split(",") if name.strip()]
    if not names:
        raise InputError(f"--otel needs {_EXPORTERS} to say where spans go, such as otlp or console")
    exporters = [_exporter(name) for name in names]
    provider = TracerProvider()
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def adopt_parent() -> None:
    """Let the span that `TRACEPARENT` names, if it is set, be the one around all of this run."""
    carrier = {name.lower(): os.environ[name] for name in ("TRACEPARENT", "TRACESTATE") if name in os.environ}
    if carrier:
        context.attach(TraceContextTextMapPropagator().extract(carrier))


def flush() -> None:
    """Send what has not been sent."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.force_flush()


def _exporter(name: str) -> SpanExporter:
    known = entry_points(group="opentelemetry_traces_exporter")
    if name not in known.names:
        near = did_you_mean(name, known.names, listing="installed are ")
        raise InputError(f"{_EXPORTERS} names {name!r}, which is not installed{near}")
    exporter = known[name].load()()
    if not isinstance(exporter, SpanExporter):
        raise InputError(f"{_EXPORTERS} names {name!r}, which makes no exporter of spans but {exporter!r}")
    return exporter
