"""`ReproducerInstrument`: when a pass fails, a folder with all that it takes to see it fail again."""

from pathlib import Path
from threading import Lock
from typing import Any, Final, cast

import anyio
from anyio.to_thread import run_sync

from apass.core.adapter import adapter_for
from apass.core.context import PassContext
from apass.core.info import PassInfo
from apass.core.instrument import pass_instrument
from apass.core.position import Numbering, Position
from apass.core.run import Run, RunNote, Whereabouts, current_run
from apass.errors import ApassError
from apass.instruments.reproducer.folder import (
    ContextSettings,
    Failure,
    Reproducer,
    dump_module,
    versions,
    write_reproducer,
)
from apass.instruments.support.paths import FolderNames, file_name
from apass.instruments.verify import VerifyInstrument
from apass.pipelines.resume import rest_of

__all__ = ["ReproducerInstrument"]


@pass_instrument
class ReproducerInstrument:
    """Writes a folder for each pass that fails: the module as it was before it, the pass, the context, the traceback.

    `apass.replay` runs just that and fails the same way, `apass.reduce` makes the module smaller while it does. Of
    passes within passes the innermost that failed is written; the error gets a note that names the folder,
    `DIR/MODULE/POSITION`. A cancelled pass has not failed.

    Nothing is kept while passes run but their positions: modules are values, and the failure hook gets the one that the
    pass was given. Each folder is written beside its place and renamed, off the loop, even if the run is cancelled
    meanwhile. A module that its adapter cannot write is left out, and the folder says why. That of a pass that changes
    its input in place, which none may, is as the pass left it.

    Parameters:
        reproducer_dir: where the folders go; made when the first pass fails.

    Raises:
        NotADirectoryError: if `reproducer_dir` is a file.

    """

    def __init__(self, reproducer_dir: Path | str) -> None:
        self.reproducer_dir: Final = Path(reproducer_dir)
        """Where the folders go."""
        if self.reproducer_dir.exists() and not self.reproducer_dir.is_dir():
            given = str(reproducer_dir)
            raise NotADirectoryError(f"reproducers go into a folder, and {given!r} is a file; choose another")
        self._names = FolderNames()
        self._numbering = Numbering()
        self._written: list[Path] = []
        self._lock = Lock()

    @property
    def folders(self) -> list[Path]:
        """The folders written so far, sorted."""
        with self._lock:
            return sorted(self._written)

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Note where the pass stands."""
        run = current_run()
        if run is not None:
            self._numbering.begin(run)

    async def run_after_pass_failed(self, mod: Any, info: PassInfo, error: BaseException) -> None:
        """Write the folder, unless a pass within this one has failed the same way and has one."""
        run = current_run()
        if run is None or not isinstance(error, Exception) or _is_written(error, run):
            return
        position = self._numbering.position(run)
        if position is None:
            return
        with anyio.CancelScope(shield=True):
            folder = await self._write(mod, run, position, error)
            with self._lock:
                self._written.append(folder)
            error.add_note(_Written(f"reproducer: {folder}", run))

    async def _write(self, mod: Any, run: Run, position: Position, error: Exception) -> Path:
        ctx, backend = PassContext.current(), _backend()
        rest = _rest(run, position, ctx)

        def write() -> Path:
            return write_reproducer(self._place(position), *_reproducer(mod, run, position, ctx, backend, rest, error))

        # Where the adapter may not be used beside the loop, the loop waits.
        return await run_sync(write) if adapter_for(mod).thread_safe else write()

    def _place(self, position: Position) -> Path:
        module = "module" if position.module is None else self._names.folder(position.module)
        steps = [f"{number}_{name}" + (f"@{func}" if func else "") for number, name, func in position.steps]
        return self.reproducer_dir / module / file_name(".".join(steps[1:] or steps))


class _Written(RunNote):
    """Names the folder of an error."""

    __slots__ = ()


def _reproducer(
    mod: Any, run: Run, position: Position, ctx: PassContext, backend: str, rest: str | None, error: Exception
) -> tuple[Reproducer, bytes | None, Exception]:
    pass_: Any = run.pass_
    trouble: list[str] = []
    pipeline, data, file, facts = None, None, None, None
    try:
        pipeline = run.info.name if pass_ is None else str(pass_.text())
    except TypeError as reason:
        trouble.append(f"the pass has no text: {reason}")
    try:
        suffix, data, facts = dump_module(mod)
        file = f"module{suffix}"
    except Exception as reason:  # whatever an adapter raises; what else there is must be kept
        trouble.append(f"the module could not be written: {type(reason).__name__}: {reason}")
    made = Reproducer(
        pass_name=run.info.name,
        pipeline=pipeline,
        rest=rest,
        defined_in=None if pass_ is None else getattr(pass_, "__module__", None),
        module=position.module,
        position=position.text,
        function=_function(error, run),
        failure=Failure.of(error),
        context=ContextSettings.of(ctx),
        verify=next((one.when for one in ctx.instruments if isinstance(one, VerifyInstrument)), None),
        backend=backend,
        versions=dict(versions()),
        module_type=f"{type(mod).__module__}:{type(mod).__qualname__}",
        module_file=file,
        facts=facts,
        trouble="; ".join(trouble) or None,
    )
    return made, data, error


def _rest(run: Run, position: Position, ctx: PassContext) -> str | None:
    """Return the text of what is left of the outermost pass after this one; None where it cannot be told."""
    outermost: Any = run.lineage[-1].pass_
    if outermost is None:
        return None
    try:
        return str(rest_of(outermost, position, ctx))
    except (ApassError, TypeError):
        return None


def _backend() -> str:
    """Return the name of the event loop that runs, which anyio tells by the home of its cancellation alone."""
    return anyio.get_cancelled_exc_class().__module__.partition(".")[0]


def _function(error: BaseException, run: Run) -> str | None:
    """Return the function whose body raised an error, by the note that the runner left on it."""
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, Whereabouts) and note.run.body_of is run:
            return note.run.function
    return None


def _is_written(error: BaseException, run: Run) -> bool:
    """Tell whether an error, one that it is made of or comes from, has the folder of a pass within `run`."""
    todo, seen = [error], set[int]()
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        notes = [note for note in getattr(one, "__notes__", ()) if isinstance(note, _Written)]
        if any(run in (inner, inner.body_of) for note in notes for inner in note.run.lineage):
            return True
        if isinstance(one, BaseExceptionGroup):
            todo += cast("BaseExceptionGroup[BaseException]", one).exceptions
        todo += [other for other in (one.__cause__, one.__context__) if other is not None]
    return False
