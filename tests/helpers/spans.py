"""Recording of OpenTelemetry spans, and their trees and attributes."""

from collections.abc import Sequence
from typing import Any

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
