"""Models of the installed onnx package, for a run without a network."""

import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import Final

import onnx

from benchmarks.arena.contest import count_nodes
from benchmarks.arena.models import Model, Wheel

__all__ = ["installed_models"]

_DATA: Final = Path(onnx.__file__).parent / "backend" / "test" / "data"

_OPERATOR_TESTS: Final = 10
"""Number of tests of operators."""


def installed_models() -> dict[Model, Path]:
    """Return models with the folder that they are in.

    These are deployed networks, which come without their weights, and the tests of operators that have the most nodes.
    """
    tests = sorted(_DATA.glob("*/*/model.onnx"))
    tests.sort(key=lambda path: -count_nodes(onnx.ModelProto.FromString(path.read_bytes())))
    wheel = Wheel("onnx", version("onnx"), tuned=True)
    found: dict[Model, Path] = {}
    for path in [*sorted((_DATA / "light").glob("*.onnx")), *tests[:_OPERATOR_TESTS]]:
        name = path.parent.name if path.name == "model.onnx" else path.stem
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        found[Model(name, wheel, path.relative_to(_DATA).as_posix(), sha256)] = _DATA
    return found
