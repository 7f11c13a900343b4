"""The providers of OpenTelemetry, set up from its environment variables.

Needs the package opentelemetry-sdk.
"""

import os
from collections.abc import Collection, Iterator
from importlib.metadata import entry_points
from typing import Any, Final

from apass.errors import InputError, MissingExtraError, did_you_mean

try:
    from opentelemetry import context, metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricReader, PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as _error:
    raise MissingExtraError(
        f"--otel needs OpenTelemetry and its SDK ({_error}): pip install 'apass[otel]' opentelemetry-sdk"
    ) from _error

__all__ = ["adopt_parent", "flush", "provide"]

_SPANS: Final = "OTEL_TRACES_EXPORTER"
_METRICS: Final = "OTEL_METRICS_EXPORTER"
_OTLP: Final = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
"""The exporters that the name `otlp` selects, by the protocol."""


def provide() -> tuple[bool, bool]:
    """Set up providers with the exporters that the environment variables name.

    Providers that are already set are kept.

    Returns:
        Whether there are exporters of spans, and of metrics.

    Raises:
        InputError: if the variables name no exporter, or one that is not installed.

    """
    # Proxies are returned until a provider is set. OpenTelemetry does not allow replacing one: the wrapper program
    # `opentelemetry-instrument` sets its own before this code runs.
    has_spans = not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    # The class of this proxy is private.
    has_metrics = type(metrics.get_meter_provider()).__name__ != "_ProxyMeterProvider"
    spans = [] if has_spans else list(_exporters(_SPANS, "opentelemetry_traces_exporter", SpanExporter))
    kinds = (MetricExporter, MetricReader)
    readers = [] if has_metrics else list(_exporters(_METRICS, "opentelemetry_metrics_exporter", *kinds))
    if not (has_spans or has_metrics or spans or readers):
        raise InputError(f"--otel needs exporters; set {_SPANS} or {_METRICS}, for example to otlp or console")
    if spans:
        tracers = TracerProvider()
        for exporter in spans:
            tracers.add_span_processor(BatchSpanProcessor(exporter))
        trace.set_tracer_provider(tracers)
    if readers:
        # A reader, such as that of Prometheus, exports by itself. `flush` exports the last values, and an exit would
        # export them again.
        metrics.set_meter_provider(
            MeterProvider(
                [
                    PeriodicExportingMetricReader(reader) if isinstance(reader, MetricExporter) else reader
                    for reader in readers
                ],
                shutdown_on_exit=False,
            )
        )
    return has_spans or bool(spans), has_metrics or bool(readers)


def adopt_parent() -> None:
    """Make the span that `TRACEPARENT` names the parent of this run's spans.

    If the variable is not set, do nothing.
    """
    carrier = {name.lower(): os.environ[name] for name in ("TRACEPARENT", "TRACESTATE") if name in os.environ}
    if carrier:
        context.attach(TraceContextTextMapPropagator().extract(carrier))


def flush() -> None:
    """Send the remaining spans and metrics."""
    tracers, meters = trace.get_tracer_provider(), metrics.get_meter_provider()
    if isinstance(tracers, TracerProvider):
        tracers.force_flush()
    if isinstance(meters, MeterProvider):
        meters.force_flush()


def _exporters(variable: str, group: str, *kinds: type[Any]) -> Iterator[Any]:
    """Create the exporters that an environment variable names."""
    installed = entry_points(group=group)
    # The name "none" is OpenTelemetry's.
    for name in (name.strip() for name in os.environ.get(variable, "").split(",")):
        if name in ("", "none"):
            continue
        entry = _otlp_entry(variable, installed.names) if name == "otlp" else name
        if entry not in installed.names:
            hint = did_you_mean(name, installed.names, listing="installed are ")
            if name == "otlp":
                hint = f"; install opentelemetry-exporter-{entry.replace('_', '-')}"
            raise InputError(f"{variable} names {name!r}, which is not installed{hint}")
        exporter = installed[entry].load()()
        if not isinstance(exporter, kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise InputError(f"{variable} names {name!r}, which creates {exporter!r}; expected a {expected}")
        yield exporter


def _otlp_entry(variable: str, installed: Collection[str]) -> str:
    """Return the entry point of the exporter `otlp`.

    As in OpenTelemetry's SDK, variables select the protocol. Without these, it is one that is installed.
    """
    signal = variable.split("_")[1]
    for name in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = os.environ.get(name, "").strip()
        if protocol in _OTLP:
            return _OTLP[protocol]
        if protocol:
            raise InputError(f"{name} must be {' or '.join(_OTLP)}, got {protocol!r}")
    return next((entry for entry in _OTLP.values() if entry in installed), "otlp")
