"""`replay`: repeats a failure from a reproducer folder."""

import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal

from apass.batch.optimize import optimize_all
from apass.concurrency.coroutines import await_once
from apass.core.config import find_option
from apass.core.context import PassContext, current_scope
from apass.core.outside import outside_of
from apass.core.run import enter_module, leave_module
from apass.errors import (
    AnswersError,
    ApassError,
    InputError,
    PassNotAllowedError,
    PassResultError,
    PipelineSyntaxError,
    ReproducerError,
    UnknownPassError,
    WorkerLostError,
)
from apass.external.answers.replayer import AnswerReplayer
from apass.instruments.reproducer.folder import FACTS, Failure, Reproducer, load_module, read_reproducer
from apass.instruments.reproducer.reading import shorten
from apass.instruments.verify import VerifyInstrument
from apass.instruments.verify_outputs import VerifyOutputsInstrument
from apass.passes.base import Pass
from apass.passes.registry import without_extensions
from apass.pipelines.parser import as_pass, check_allow, parse_pipeline
from apass.runner.error_policy import errors_of_passes
from apass.util.files import read_regular

__all__ = [
    "Replay",
    "ResultCheck",
    "Verdict",
    "check_context",
    "failure_of_check",
    "read_answers",
    "read_module",
    "read_pass",
    "replay",
    "run_once",
]


ResultCheck = Callable[[Any, Any], bool | Failure | Awaitable[bool | Failure]]
"""Takes the module before and after the passes; returns whether the result is good, or how it fails, or raises."""

_LOST: Final = Failure.of(WorkerLostError()).type
"""The recorded failure of a pass that ended its worker; it would end this process too."""


class Verdict(Enum):
    """The outcome of a replay, compared with the recorded failure."""

    SAME = "fails the same way"
    """Same type and same message."""
    OTHER = "fails another way"
    """Another type or another message."""
    NONE = "does not fail any more"
    """The pass succeeded."""
    SUCCEEDS = "does not fail, as recorded"
    """The pass succeeded, and its state was saved before it had failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The result of a replay."""

    reproducer: Reproducer
    """The replayed reproducer."""
    verdict: Verdict
    """The comparison with the recorded failure."""
    failure: Failure | None
    """What the pass raised, or how the check failed; None if neither happened."""
    error: Exception | None
    """The exception of the pass, or None."""


async def replay(
    folder: Path | str,
    pass_: Pass[Any] | str | None = None,
    *,
    check: ResultCheck | None = None,
    unknown_answers: Literal["error", "ask"] = "error",
    allow: Iterable[str] = (),
) -> Replay:
    """Run the pass of a reproducer, and compare the failure with the recorded one.

    The pass runs on the recorded module, in the recorded context. Earlier passes and required passes are not repeated.
    If it had ended its worker process, it runs in such a process again. The current event loop may differ from the
    recorded one. The pass must be registered: no module is imported by name.

    Parameters:
        folder: the folder written by `ReproducerInstrument`.
        pass_: the pass to run, or the text of a pipeline, in place of the recorded one.
        check: returns whether a result is good, as `reduce` takes it; for the failure of a check.
        unknown_answers: what a question without a recorded answer does: raise an UnknownAnswerError, or ask.
        allow: the options, passes and config options of the folder that may reach outside of the module (see
            `Outside`), such as `xdsl.apply-pdl{pdl_file}`; by default none.

    Raises:
        TypeError: if `pass_` is neither a pass nor a text.
        ReproducerError: if the folder has no reproducer, it has no module, the pass cannot be found, or it reaches
            outside.

    """
    path = Path(folder)
    reproducer = read_reproducer(path)
    allowed = check_allow(allow)
    check_context(path, reproducer, allowed)
    mod = read_module(path, reproducer)
    the_pass = read_pass(path, reproducer, allowed) if pass_ is None else as_pass("replay(folder, pass_)", pass_)
    recorded = reproducer.failure
    is_lost = recorded is not None and recorded.type == _LOST
    answers = read_answers(path, reproducer, unknown_answers)
    result, error = await run_once(reproducer, the_pass, mod, answers, in_worker=is_lost)
    failure = Failure.of(error) if error is not None else await failure_of_check(check, mod, result)
    if failure is None:
        verdict = Verdict.SUCCEEDS if recorded is None else Verdict.NONE
    else:
        # The message about a lost worker depends on what it had to do.
        is_same = failure.type == _LOST if is_lost else recorded is not None and recorded.is_same_as(failure)
        verdict = Verdict.SAME if is_same else Verdict.OTHER
    return Replay(reproducer=reproducer, verdict=verdict, failure=failure, error=error)


async def run_once(
    reproducer: Reproducer, pass_: Pass[Any], mod: Any, answers: AnswerReplayer | None, *, in_worker: bool = False
) -> tuple[Any, Exception | None]:
    """Run a pass in the context of a reproducer; return its result and its exception.

    One of both is None.

    Parameters:
        reproducer: the reproducer, for the context.
        pass_: the pass.
        mod: the module.
        answers: the recorded answers; None to ask.
        in_worker: whether the pass runs in a worker process, because it may end its process.

    """
    token = None if reproducer.module is None else enter_module(reproducer.module)
    try:
        instruments = [*_checks(reproducer), *([] if answers is None else [answers])]
        context: PassContext = reproducer.context.make(instruments)
        async with context:
            # Most disabled and required names belong to passes that do not run here.
            current_scope().expected.update(context.disabled_pass, context.required_pass)
            try:
                with errors_of_passes():
                    if in_worker:
                        name = reproducer.module or "module"
                        return (await optimize_all({name: mod}, pass_, executor="process"))[name], None
                    return await pass_(mod), None
            except Exception as error:
                return None, error
    finally:
        if token is not None:
            leave_module(token)


async def failure_of_check(check: ResultCheck | None, before: Any, after: Any) -> Failure | None:
    """Return how a check fails on the result of a pass; None if the result is good.

    Raises:
        ReproducerError: if the check returns None.

    """
    if check is None:
        return None
    try:
        verdict = await await_once(check(before, after), "the check")
    except (InputError, PassResultError):  # the check could not be made
        raise
    except Exception as error:
        return Failure.of(error)
    if verdict is None:
        raise ReproducerError("the check returned None; it must return whether the result is good")
    if isinstance(verdict, Failure):
        return verdict
    return None if verdict else Failure(type="check", message="the check returned a false value")


def _checks(reproducer: Reproducer) -> Iterator[object]:
    """Iterate over new instruments like those that may have raised the error."""
    if reproducer.verify is not None:
        yield VerifyInstrument("always" if reproducer.verify == "always" else "changed")
    if reproducer.verify_outputs is not None:
        yield VerifyOutputsInstrument(prove=reproducer.verify_outputs == "prove")


def check_context(folder: Path, reproducer: Reproducer, allow: Sequence[str] = ()) -> None:
    """Check the settings of the context.

    Raises:
        ReproducerError: if a config option does not exist, has another type now, or reaches outside of the module and
            is not in `allow`.

    """
    try:
        reproducer.context.make()
    except ApassError as error:
        raise ReproducerError(f"{folder / FACTS} has an invalid field 'context': {shorten(error)}") from error
    for key in reproducer.context.config:
        outside = outside_of(find_option(key).type)
        if outside is not None and key not in allow:
            raise ReproducerError(
                f"the reproducer in {folder} is not run: its config option {key!r} {outside.value}; if you trust the "
                f"folder, allow {key!r} (`--allow`)"
            )


def read_module(folder: Path, reproducer: Reproducer) -> Any:
    """Return the module of a reproducer.

    Raises:
        ReproducerError: if the reproducer has no module, or it cannot be read.

    """
    if reproducer.module_file is None:
        raise ReproducerError(f"the reproducer in {folder} has no module: {shorten(reproducer.trouble)}")
    path = folder / reproducer.module_file
    try:
        return load_module(reproducer.module_type, read_regular(path), reproducer.facts)
    except ReproducerError as error:
        raise ReproducerError(f"{folder / FACTS} has an invalid field 'module_type': {shorten(error)}") from error
    except OSError as error:
        raise ReproducerError(f"cannot read {path}: {error}") from error
    except Exception as error:  # adapters raise anything for invalid data or facts
        raise ReproducerError(f"cannot read {path}: {type(error).__name__}: {shorten(error)}") from error


def read_answers(
    folder: Path, reproducer: Reproducer, unknown: Literal["error", "ask"] = "error"
) -> AnswerReplayer | None:
    """Return the answers of a reproducer; None if the pass asked for none.

    Raises:
        ReproducerError: if they cannot be read.

    """
    if reproducer.answers_file is None:
        return None
    try:
        read_regular(folder / reproducer.answers_file)  # not a link or a pipe
        return AnswerReplayer(folder / reproducer.answers_file, unknown=unknown)
    except OSError as error:
        raise ReproducerError(f"cannot read {folder / reproducer.answers_file}: {error}") from error
    except AnswersError as error:
        raise ReproducerError(str(error)) from error


def read_pass(folder: Path, reproducer: Reproducer, allow: Sequence[str] = ()) -> Pass[Any]:
    """Return the pass of a reproducer.

    Parameters:
        folder: the folder, for messages.
        reproducer: what was read from it.
        allow: what may reach outside of the module, as `replay` takes it.

    Raises:
        ReproducerError: if the reproducer has no pipeline text, the text is invalid, its pass is not registered, or it
            reaches outside.

    """
    text = reproducer.pipeline
    if text is None:
        raise ReproducerError(
            f"the reproducer in {folder} has no pipeline: {shorten(reproducer.trouble)}; "
            f"call replay with pass_ from Python"
        )
    try:
        return _only_pass(text, allow)
    except PassNotAllowedError as error:
        reason = str(error).partition(", which is not allowed here")[0]
        raise ReproducerError(
            f"the reproducer in {folder} is not run: {shorten(reason)}; if you trust the folder, allow "
            f"{shorten(repr(error.name))} (`--allow`)"
        ) from error
    except UnknownPassError as error:
        # The paths of a stranger are shown as text only.
        options = " ".join(f"--load {shlex.quote(source)}" for source in reproducer.loaded)
        command = f"apass {shorten(options)} replay ..." if options else "apass --load FILE replay ..."
        raise ReproducerError(
            f"the reproducer in {folder} has the pipeline {shorten(text)}, which has an unregistered pass; "
            f"first import the module that registers it (the pass was defined in {shorten(reproducer.defined_in)!r}), "
            f"as in `{command}`, or call replay with pass_"
        ) from error
    except Exception as error:  # the factory of a pass may raise anything for an unexpected option
        raise ReproducerError(
            f"the reproducer in {folder} has an invalid pipeline: {type(error).__name__}: {shorten(error)}"
        ) from error


def _only_pass(text: str, allow: Sequence[str]) -> Pass[Any]:
    """Return the pass of a pipeline text, without the Sequential that surrounds it."""
    # The line end closes a comment. A text with unbalanced parentheses gives more than one pass.
    with without_extensions():
        around = parse_pipeline(f"Sequential{{name=around}}({text}\n)", allow=["*", *allow])
    if around.info.name != "around" or len(around.passes) != 1:
        raise PipelineSyntaxError("expected one pass", text, 0)
    return around.passes[0]
