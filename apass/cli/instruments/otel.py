"""`--otel`: OpenTelemetry spans and metrics."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Annotated, Any

import typer

from apass.cli.instruments.base import PANEL, RunObserver, RunPlan
from apass.cli.options import FlagValue

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

    otel: Annotated[
        OtelSpans | None,
        typer.Option(
            "--otel",
            metavar="=SPANS",
            help="Send spans of passes (default) or functions to the exporters of OTEL_TRACES_EXPORTER, and metrics "
            "to those of OTEL_METRICS_EXPORTER.",
            rich_help_panel=PANEL,
        ),
        FlagValue("--otel", "passes"),
    ] = None
    """The spans to send; None to send none."""

    def create_observer(self, run: RunPlan) -> RunObserver | None:
        """Return the observer that sends spans and metrics, or None if not enabled.

        Raises:
            MissingExtraError: if OpenTelemetry is not installed.
            InputError: if the environment variables name no exporter that is installed.

        """
        if self.otel is None:
            return None
        provider = import_module("apass.cli.instruments.otel_provider")
        has_spans, has_metrics = provider.provide()
        otel = import_module("apass.instruments.otel")
        instruments: list[object] = []
        if has_spans:
            instruments.append(otel.OpenTelemetryInstrument(functions=self.otel is OtelSpans.FUNCTIONS))
        if has_metrics:
            instruments.append(otel.OpenTelemetryMetrics())
        return _Otel(instruments, provider)


class _Otel(RunObserver):
    def __init__(self, instruments: Sequence[object], provider: Any) -> None:
        self._instruments = instruments
        self._provider = provider

    def instruments(self) -> Iterable[object]:
        return self._instruments

    def begin(self) -> None:
        self._provider.adopt_parent()

    def finish(self, show: Callable[[str], None]) -> None:
        self._provider.flush()
