"""`--otel`: spans of OpenTelemetry."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Annotated, Any

import typer

from apass.cli.alone import Alone
from apass.cli.instruments.base import PANEL, Run, Watch

__all__ = ["OtelOptions", "OtelSpans"]


class OtelSpans(Enum):
    """What gets spans."""

    PASSES = "passes"
    """Modules and passes."""
    FUNCTIONS = "functions"
    """The work of passes on functions, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtelOptions:
    """What the command line says of OpenTelemetry."""

    otel: Annotated[
        OtelSpans | None,
        typer.Option(
            "--otel",
            metavar="=SPANS",
            help="Send spans where OTEL_TRACES_EXPORTER says: of passes (if nothing is said), or of functions too.",
            rich_help_panel=PANEL,
        ),
        Alone("--otel", "passes"),
    ] = None
    """Whether to send spans, and of what."""

    def watch(self, run: Run) -> Watch | None:
        """Return what sends spans, if it is asked for.

        Raises:
            MissingExtraError: if OpenTelemetry is not installed.
            InputError: if the environment does not say where to.

        """
        if self.otel is None:
            return None
        provider = import_module("apass.cli.instruments.otel_provider")
        provider.provide()
        instrument = import_module("apass.instruments.otel").OpenTelemetryInstrument
        return _Otel(instrument(functions=self.otel is OtelSpans.FUNCTIONS), provider)


class _Otel(Watch):
    def __init__(self, instrument: object, provider: Any) -> None:
        self._instrument = instrument
        self._provider = provider

    def instruments(self) -> Iterable[object]:
        return (self._instrument,)

    def begin(self) -> None:
        self._provider.adopt_parent()

    def finish(self, show: Callable[[str], None]) -> None:
        self._provider.flush()
