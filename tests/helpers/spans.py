"""Recording of OpenTelemetry spans and metrics."""

from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Recorder:
    """A tracer with the spans that it created."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = provider.get_tracer("tests")

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def tree(self) -> list[str]:
        """Return the spans as indented lines, with children sorted by name."""
        return [line for item in self._below(None) for line in self._lines(item, "")]

    def _below(self, parent: int | None) -> list[ReadableSpan]:
        children = [item for item in self.spans if (item.parent.span_id if item.parent else None) == parent]
        return sorted(children, key=lambda item: (item.name, item.start_time))

    def _lines(self, span: ReadableSpan, indent: str) -> list[str]:
        assert span.context is not None
        below = [line for item in self._below(span.context.span_id) for line in self._lines(item, indent + "  ")]
        return [indent + span.name, *below]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


class MetricRecorder:
    """A meter with the metrics that were recorded."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.meter = MeterProvider([self.reader], shutdown_on_exit=False).get_meter("tests")

    def points(self) -> dict[str, list[tuple[list[Any], Any]]]:
        """Return the sorted points of each metric: attributes, and value or count."""
        data: Any = self.reader.get_metrics_data()
        return {
            metric.name: sorted(
                (list(point.attributes.values()), getattr(point, "value", None) or getattr(point, "count", 0))
                for point in metric.data.data_points
            )
            for scope in data.resource_metrics[0].scope_metrics
            for metric in scope.metrics
        }
