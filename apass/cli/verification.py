"""`--verify-outputs` and its options: outputs are compared before and after."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from apass.cli.options import FlagValue, ManyValues
from apass.cli.panels import VERIFY
from apass.core.ir_plugin import GivenInputs
from apass.errors import InputError

__all__ = ["Verification", "VerificationOptions", "VerifyOutputs"]


class VerifyOutputs(Enum):
    """When to compare outputs."""

    OFF = "off"
    """Never."""
    END = "end"
    """After the last pass, with those of the model that was read."""
    EACH = "each"
    """Also after each pass that changed the module, with those before the pass."""
    PROVE = "prove"
    """As `EACH`, but search for a proof first."""


@dataclass(frozen=True, slots=True)
class Verification:
    """How the outputs of a result are compared with those of its model."""

    inputs: GivenInputs | None = None
    """The inputs of the user; None for random ones."""
    is_required: bool = False
    """Whether outputs that cannot be compared are an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationOptions:
    """The options of the comparison of outputs."""

    PANEL: ClassVar[str] = VERIFY

    verify_outputs: Annotated[
        VerifyOutputs,
        typer.Option(
            "--verify-outputs",
            metavar="[=off|end|each|prove]",
            help="Evaluate models before and after (end, the default), or around each pass, and compare their "
            "outputs. prove: first search for a proof.",
        ),
        FlagValue("--verify-outputs", "end"),
    ] = VerifyOutputs.OFF
    input_shape: Annotated[
        list[str] | None,
        typer.Option(
            "--input-shape",
            metavar="NAME=SIZES",
            help="Compare outputs with this shape of an input, such as x=1,3,48,192; may be repeated.",
        ),
        ManyValues("--input-shape"),
    ] = None
    inputs: Annotated[
        Path | None,
        typer.Option(
            "--inputs",
            metavar="FILE.npz",
            help="Compare outputs for the arrays of this file, by the names of the inputs.",
        ),
    ] = None
    require_verified: Annotated[
        bool,
        typer.Option(
            "--require-verified", help="Fail the models whose outputs cannot be compared, instead of a yellow row."
        ),
    ] = False

    @property
    def when(self) -> VerifyOutputs:
        """When outputs are compared; the other options imply it."""
        is_implied = self.input_shape or self.inputs is not None or self.require_verified
        return VerifyOutputs.END if is_implied and self.verify_outputs is VerifyOutputs.OFF else self.verify_outputs

    @property
    def described(self) -> str | bool:
        """The options as text, for a journal; False if outputs are not compared."""
        if self.when is VerifyOutputs.OFF:
            return False
        more = [*(self.input_shape or ()), *([str(self.inputs)] if self.inputs else [])]
        return " ".join([self.when.value, *more, *(["required"] if self.require_verified else [])])

    def verification(self) -> Verification | None:
        """Return how outputs are compared at the end; None if they are not.

        Raises:
            InputError: if a shape or the file cannot be read, or both are given.

        """
        if self.when is VerifyOutputs.OFF:
            return None
        return Verification(self.given(), self.require_verified)

    def given(self) -> GivenInputs | None:
        """Return the inputs that the options give, or None.

        Raises:
            InputError: if a shape or the file cannot be read, or both are given.

        """
        if self.input_shape and self.inputs is not None:
            raise InputError(
                "--input-shape cannot be used with --inputs, whose arrays have shapes; leave one of them out"
            )
        if self.inputs is not None:
            return GivenInputs(values=_arrays(self.inputs))
        return GivenInputs(shapes=dict(map(_shape, self.input_shape))) if self.input_shape else None


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    # A name may contain an equals sign, a size may not.
    name, _, sizes = text.rpartition("=")
    parts = [part.strip() for part in sizes.split(",")] if sizes.strip() else []
    if not name or not all(part.isascii() and part.isdecimal() for part in parts):
        raise InputError(f"--input-shape takes NAME=SIZES with sizes of at least 0, such as x=1,3,48,192, got {text!r}")
    return name, tuple(map(int, parts))


def _arrays(path: Path) -> Mapping[str, Any]:
    try:
        import numpy as np  # few runs give inputs, and apass has no dependency on numpy
    except ImportError as error:
        raise InputError(f"--inputs needs numpy ({error}): pip install numpy") from None
    try:
        with path.open("rb") as file:
            found: Any = np.load(file, allow_pickle=False)
            return {name: found[name] for name in found.files}
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except Exception as error:  # numpy and zipfile raise errors of many types for damaged files
        raise InputError(f"{path} is not an .npz file of plain arrays: {error}") from None
