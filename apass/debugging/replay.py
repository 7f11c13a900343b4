"""`replay`: a failure that was written as a folder, once more."""

import json
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio

from apass.core.context import PassContext, current_scope
from apass.core.pass_factories import known_names
from apass.core.run import enter_module, leave_module
from apass.errors import ReproducerError, UnknownPassError
from apass.instruments.reproducer.folder import Failure, Reproducer, load_module, read_reproducer
from apass.instruments.verify import VerifyInstrument, VerifyWhen
from apass.passes.base import Pass
from apass.pipelines.parser import parse_pipeline

__all__ = ["Replay", "Verdict", "read_module", "read_pass", "replay", "report_failure", "run_once"]


class Verdict(Enum):
    """What came of a replay."""

    SAME = "fails the same way"
    """The same type of exception, with the same message."""
    OTHER = "fails another way"
    """Another type, or another message."""
    NONE = "does not fail any more"
    """The pass returned a module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What came of a replay."""

    reproducer: Reproducer
    """What was replayed."""
    verdict: Verdict
    """How it compares with what happened then."""
    error: Exception | None
    """What the pass raised now."""


async def replay(folder: Path | str, pass_: Pass[Any] | None = None) -> Replay:
    """Run the pass of a reproducer on its module, under its context, and compare the failure with the one then.

    What ran before the pass, its requirements too, had run already. It runs in the event loop that is there, which may
    be another than that then. A pass that is not registered is looked for by importing the module that defined it.

    Parameters:
        folder: what `ReproducerInstrument` wrote.
        pass_: the pass to run, in place of the one that is written there.

    Raises:
        ReproducerError: if there is no reproducer, or it has no module, or the pass is not to be found.

    """
    place = Path(folder)
    reproducer = read_reproducer(place)
    mod = read_module(place, reproducer)
    error = await run_once(reproducer, read_pass(place, reproducer) if pass_ is None else pass_, mod)
    if error is None:
        verdict = Verdict.NONE
    else:
        verdict = Verdict.SAME if reproducer.failure.is_same_as(Failure.of(error)) else Verdict.OTHER
    return Replay(reproducer=reproducer, verdict=verdict, error=error)


async def run_once(reproducer: Reproducer, pass_: Pass[Any], mod: Any) -> Exception | None:
    """Run a pass on a module, under the context of a reproducer; return what it raised."""
    token = None if reproducer.module is None else enter_module(reproducer.module)
    try:
        checks = [] if reproducer.verify is None else [VerifyInstrument(_when(reproducer.verify))]
        context: PassContext = reproducer.context.make(checks)
        async with context:
            # Most names that it was to leave out are of passes that do not run here.
            current_scope().met.update(context.disabled_pass, context.required_pass)
            try:
                await pass_(mod)
            except Exception as error:
                return error
        return None
    finally:
        if token is not None:
            leave_module(token)


def report_failure(folder: str) -> None:
    """Replay a reproducer and print how it fails as a line of JSON, `null` if it does not; for another process."""
    result = anyio.run(replay, folder, backend=read_reproducer(Path(folder)).backend)
    print(json.dumps(None if result.error is None else asdict(Failure.of(result.error))))  # noqa: T201  its purpose


def _when(text: str) -> VerifyWhen:
    return "always" if text == "always" else "changed"


def read_module(folder: Path, reproducer: Reproducer) -> Any:
    """Return the module of a reproducer; ReproducerError if it has none."""
    if reproducer.module_file is None:
        raise ReproducerError(f"the reproducer in {folder} has no module: {reproducer.trouble}")
    try:
        data = (folder / reproducer.module_file).read_bytes()
    except OSError as error:
        raise ReproducerError(f"cannot read {folder / reproducer.module_file}: {error}") from error
    return load_module(reproducer.module_type, data, reproducer.facts)


def read_pass(folder: Path, reproducer: Reproducer) -> Pass[Any]:
    """Return the pass of a reproducer.

    Raises:
        ReproducerError: if its text is not known, or it is registered neither now nor by the module that defines it.

    """
    text = reproducer.pipeline
    if text is None:
        raise ReproducerError(
            f"the reproducer in {folder} has no pipeline: {reproducer.trouble}; from Python, give replay the pass"
        )
    name = re.split(r"[{(]", text, maxsplit=1)[0]
    # Before the text is read: looking for an unknown name imports every pass that comes with apass.
    if reproducer.defined_in and name not in set(known_names()):
        with suppress(ImportError):
            import_module(reproducer.defined_in)
    try:
        return _only_pass(text)
    except UnknownPassError as error:
        raise ReproducerError(
            f"the reproducer in {folder} is of {text}, and that, or a pass in it, is not registered: import what "
            f"registers it ({reproducer.defined_in}), or, from Python, give replay the pass"
        ) from error


def _only_pass(text: str) -> Pass[Any]:
    """Return the pass that is written, as it stands: not in the Sequential that a text stands for."""
    return parse_pipeline(f"Sequential{{name=around}}({text})").passes[0]
