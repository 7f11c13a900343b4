"""`--verify`, `--check-changes` and `--verify-outputs`: checks around passes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, ClassVar

import typer

from apass import instruments
from apass.cli.instruments.base import RunObserver, RunPlan
from apass.cli.panels import VERIFY
from apass.core.ir_plugin import GivenInputs

__all__ = ["VerifyingOptions", "VerifyingOutputs"]


class Verifying(Enum):
    """When to verify."""

    OFF = "off"
    """Never."""
    CHANGED = "changed"
    """After each pass that changed the module."""
    ALWAYS = "always"
    """After each pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyingOptions:
    """The options of verification."""

    PANEL: ClassVar[str] = VERIFY

    verify: Annotated[
        Verifying, typer.Option(help="Check that modules are valid, and report the pass that broke one.")
    ] = Verifying.OFF
    check_changes: Annotated[
        bool, typer.Option("--check-changes", help="Report passes that modify their input in place.")
    ] = False

    def create_observer(self, run: RunPlan) -> RunObserver | None:
        """Return the observer that verifies, or None if it is not enabled."""
        return _Verifying(self) if self.check_changes or self.verify is not Verifying.OFF else None


class _Verifying(RunObserver):
    def __init__(self, options: VerifyingOptions) -> None:
        self._options = options

    def instruments(self) -> Iterable[object]:
        if self._options.verify is not Verifying.OFF:
            yield instruments.VerifyInstrument("always" if self._options.verify is Verifying.ALWAYS else "changed")
        if self._options.check_changes:
            yield instruments.HonestChangeInstrument()


class VerifyingOutputs(RunObserver):
    """Compares outputs around each pass, for an option of `apass opt` itself."""

    def __init__(self, *, prove: bool, inputs: GivenInputs | None = None) -> None:
        self._instrument = instruments.VerifyOutputsInstrument(prove=prove, inputs=inputs)

    def instruments(self) -> Iterable[object]:
        """Return the instrument."""
        return (self._instrument,)

    def finish(self, show: Callable[[str], None]) -> None:
        """Print the results for each pass."""
        for (name, result), count in sorted(self._instrument.results.items()):
            show(f"{name}: {result}" + (f" ({count} times)" if count > 1 else ""))
