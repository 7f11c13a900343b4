"""The `ModelFormat` of Relay text files."""

from pathlib import Path
from typing import Final

from anyio import CapacityLimiter, to_thread

from apass.cli.formats import Comparison
from apass.cli.inputs import InputError
from apass.relay.interpreter.compare_outputs import difference, random_arguments
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import Call
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.parser import parse
from apass.relay.text.printing.printer import astext
from apass.util.files import Prepared, write_whole

__all__ = ["DEFAULT_PIPELINE", "companions", "compare_outputs", "load", "save", "size"]

DEFAULT_PIPELINE: Final = "relay.Default"
"""The pipeline that runs if none is given."""


def load(path: Path) -> IRModule:
    """Read a module.

    Raises:
        InputError: if the file cannot be read.
        ApassError: if the text is not valid Relay, or types cannot be inferred. The message contains the path and
            the position.

    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    return parse(text, str(path))


def companions(path: Path) -> list[Path]:
    """Return an empty list, because a module consists of one file."""
    return []


def save(mod: IRModule, path: Path, prepared: Prepared | None = None) -> None:
    """Write a module to `path` atomically.

    `prepared` is called before the temporary file is renamed.
    """
    write_whole(path, astext(mod), prepared)


def size(mod: IRModule) -> int:
    """Return the number of calls in all functions."""
    return sum(isinstance(node, Call) for func in mod.functions.values() for node in post_order(func))


async def compare_outputs(before: IRModule, after: IRModule, workers: CapacityLimiter) -> Comparison:
    """Evaluate both modules on the same random arguments, and compare their outputs.

    The evaluation runs in a worker thread.
    """
    return await to_thread.run_sync(_compare, before, after, limiter=workers)


def _compare(before: IRModule, after: IRModule) -> Comparison:
    try:
        arguments = random_arguments(before["main"])
    except (KeyError, ValueError) as error:
        return Comparison(False, f"outputs not compared: {error}")
    found = difference(evaluate(before, *arguments), evaluate(after, *arguments))
    return Comparison(bool(found), found or "outputs equal")
