"""`--otel`: OpenTelemetry spans and metrics."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, ClassVar

import typer

from apass.cli.instruments.base import RunObserver, RunPlan
from apass.cli.options import FlagValue
from apass.cli.panels import MEASURE

__all__ = ["OtelOptions", "OtelSpans"]


class OtelSpans(Enum):
    """The events that are traced as spans."""

    PASSES = "passes"
    """Modules and passes."""
    FUNCTIONS = "functions"
    """Modules, passes, and the work of passes on functions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtelOptions:
    """The options of OpenTelemetry."""

    PANEL: ClassVar[str] = MEASURE

    otel: Annotated[
        OtelSpans | None,
        typer.Option(
            "--otel",
            metavar="[=SPANS]",
            help="Send spans of passes (default) or functions to the exporters of OTEL_TRACES_EXPORTER, and metrics "
            "to those of OTEL_METRICS_EXPORTER.",
        ),
        FlagValue("--otel", "passes"),
    ] = None

    def create_observer(self, run: RunPlan) -> RunObserver | None:
        """Return the observer that sends spans and metrics, or None if not enabled.

        Raises:
            MissingExtraError: if OpenTelemetry is not installed.
            InputError: if the environment variables name no exporter that is installed.

        """
        if self.otel is None:
            return None
        # OpenTelemetry is an extra.
        from apass.cli.instruments import otel_provider
        from apass.instruments.otel import OpenTelemetryInstrument, OpenTelemetryMetrics

        has_spans, has_metrics = otel_provider.provide()
        instruments: list[object] = []
        if has_spans:
            instruments.append(OpenTelemetryInstrument(functions=self.otel is OtelSpans.FUNCTIONS))
        if has_metrics:
            instruments.append(OpenTelemetryMetrics())
        return _Otel(instruments, otel_provider.adopt_parent, otel_provider.flush)


class _Otel(RunObserver):
    def __init__(self, instruments: Sequence[object], begin: Callable[[], None], flush: Callable[[], None]) -> None:
        self._instruments = instruments
        self._begin = begin
        self._flush = flush

    def instruments(self) -> Iterable[object]:
        return self._instruments

    def begin(self) -> None:
        self._begin()

    def finish(self, show: Callable[[str], None]) -> None:
        self._flush()
