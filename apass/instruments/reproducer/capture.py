"""What a reproducer records of a run."""

from collections.abc import Sequence
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from apass.core.adapter import type_name
from apass.core.context import PassContext
from apass.core.position import Position
from apass.core.questions import Answer
from apass.core.run import Run, Whereabouts
from apass.errors import ApassError
from apass.external.answers.format import ANSWERS_FILE, answers_text, line_of
from apass.instruments.reproducer.folder import ContextSettings, Failure, Reproducer, dump_module, versions
from apass.instruments.support.paths import file_name
from apass.instruments.verify import VerifyInstrument
from apass.instruments.verify_outputs import VerifyOutputsInstrument
from apass.loading.user_modules import loaded_user_modules
from apass.passes.sequential import Sequential
from apass.pipelines.resume import rest_of

__all__ = ["AnswersByRun", "capture", "context_fields", "rest_text"]


class AnswersByRun:
    """The answers that each running pass asked for. The methods are thread-safe."""

    def __init__(self) -> None:
        self._answers: WeakKeyDictionary[Run, list[Answer]] = WeakKeyDictionary()
        self._lock = Lock()

    def add(self, answer: Answer) -> None:
        """Keep an answer until the passes that asked for it have ended."""
        runs = () if answer.run is None else (answer.run.body_of or answer.run).lineage
        with self._lock:
            for run in runs:
                # A Sequential asks for nothing itself. It would keep the answers of all passes.
                if not isinstance(run.pass_, Sequential):
                    self._answers.setdefault(run.body_of or run, []).append(answer)

    def of(self, run: Run) -> Sequence[Answer]:
        """Return the answers that a running pass has asked for so far."""
        with self._lock:
            return list(self._answers.get(run, ()))


def capture(
    mod: Any,
    run: Run,
    position: Position,
    ctx: PassContext,
    backend: str,
    rest: str | None,
    error: Exception | None,
    answers: Sequence[Answer] = (),
) -> tuple[Reproducer, bytes | None, Exception | str, bytes]:
    """Return the arguments of `write_reproducer` after the folder.

    Parameters:
        mod: the input of the pass.
        run: the run of the pass.
        position: its position.
        ctx: the context that it runs in.
        backend: the name of the event loop.
        rest: the text of the remaining passes; None if it is unknown.
        error: what the pass raised; None if it has not failed.
        answers: the answers that it asked for.

    """
    pass_: Any = run.pass_
    trouble: list[str] = []
    pipeline, data, file, facts = None, None, None, None
    try:
        pipeline = run.info.name if pass_ is None else str(pass_.text())
    except TypeError as reason:
        trouble.append(f"the pass has no text: {reason}")
    try:
        suffix, data, facts = dump_module(mod)
        file = file_name(f"module{suffix}")
    except Exception as reason:  # adapters raise anything; the rest of the reproducer must still be written
        trouble.append(f"the module could not be written: {type(reason).__name__}: {reason}")
    reproducer = Reproducer(
        pass_name=run.info.name,
        pipeline=pipeline,
        rest=rest,
        defined_in=None if pass_ is None else getattr(pass_, "__module__", None),
        module=position.module,
        position=position.text,
        function=None if error is None else _function(error, run),
        failure=None if error is None else Failure.of(error),
        **context_fields(ctx, backend),
        module_type=type_name(mod),
        module_file=file,
        answers_file=ANSWERS_FILE if answers else None,
        facts=facts,
        trouble="; ".join(trouble) or None,
    )
    cause = "saved while the pass was paused\n" if error is None else error
    return reproducer, data, cause, answers_text(map(line_of, answers)).encode()


def context_fields(ctx: PassContext, backend: str) -> dict[str, Any]:
    """Return the fields of a reproducer that belong to context and environment."""
    instruments = ctx.instruments
    return {
        "loaded": tuple(module.source for module in loaded_user_modules()),
        "context": ContextSettings.of(ctx),
        "verify": next((item.when for item in instruments if isinstance(item, VerifyInstrument)), None),
        "verify_outputs": next((item.mode for item in instruments if isinstance(item, VerifyOutputsInstrument)), None),
        "backend": backend,
        "versions": dict(versions()),
    }


def rest_text(run: Run, position: Position, ctx: PassContext) -> str | None:
    """Return the text of the remaining passes, or None if it is unknown."""
    outermost: Any = run.lineage[-1].pass_
    if outermost is None:
        return None
    try:
        return str(rest_of(outermost, position, ctx))
    except (ApassError, TypeError):
        return None


def _function(error: BaseException, run: Run) -> str | None:
    """Return the function whose body raised an error, from the runner's note."""
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, Whereabouts) and note.run.body_of is run:
            return note.run.function
    return None
