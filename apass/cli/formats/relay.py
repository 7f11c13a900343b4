"""What the command line does with files of Relay text; a `ModelFormat`."""

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
"""What runs where no pipeline is given."""


def load(path: Path) -> IRModule:
    """Read a module; an ApassError that names the file and the place in it if it is not Relay, or has no types."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    return parse(text, str(path))


def companions(path: Path) -> list[Path]:
    """Return nothing: all of a module is in its file."""
    return []


def save(mod: IRModule, path: Path, prepared: Prepared | None = None) -> None:
    """Write a module beside `path`, tell `prepared`, and rename it."""
    write_whole(path, astext(mod), prepared)


def size(mod: IRModule) -> int:
    """Return how many calls the functions make."""
    return sum(isinstance(node, Call) for func in mod.functions.values() for node in post_order(func))


async def compare_outputs(before: IRModule, after: IRModule, workers: CapacityLimiter) -> Comparison:
    """Evaluate both on the same random arguments, in a worker thread, and say whether they agree."""
    return await to_thread.run_sync(_compare, before, after, limiter=workers)


def _compare(before: IRModule, after: IRModule) -> Comparison:
    try:
        arguments = random_arguments(before["main"])
    except (KeyError, ValueError) as error:
        return Comparison(False, f"outputs not compared: {error}")
    found = difference(evaluate(before, *arguments), evaluate(after, *arguments))
    return Comparison(bool(found), found or "outputs equal")
