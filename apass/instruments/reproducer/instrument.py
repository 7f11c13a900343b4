"""`ReproducerInstrument`: writes a folder that reproduces each failure of a pass."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final, Self, cast
from weakref import WeakKeyDictionary

import anyio
from anyio.to_thread import run_sync

from apass.concurrency.backend import backend_name
from apass.core.adapter import adapter_for
from apass.core.context import PassContext
from apass.core.instrument import pass_instrument
from apass.core.pass_info import PassInfo
from apass.core.position import Position, PositionTracker
from apass.core.questions import Answer
from apass.core.run import Run, RunNote, current_run
from apass.errors import PassTimeoutError, WorkerLostError
from apass.executors.instrument_twins import remote_run
from apass.instruments.reproducer.capture import AnswersByRun, capture, rest_text
from apass.instruments.reproducer.folder import read_reproducer, write_reproducer
from apass.instruments.reproducer.running import RunningInputs, recover_inputs
from apass.instruments.support.paths import FolderNames, file_name
from apass.passes.base import Pass
from apass.pipelines.resume import is_row

__all__ = ["ReproducerInstrument"]


@pass_instrument
class ReproducerInstrument:
    """Writes a reproducer folder for each pass that fails.

    The folder holds the module before the pass, the pass, the context and the traceback. `apass.replay` runs this pass
    alone and fails in the same way. `apass.reduce` makes the module smaller while the failure stays the same.

    - For nested passes, only the innermost failed pass that `runs_alone` is written. A note on the error names the
      folder, `DIR/MODULE/POSITION`.
    - A cancelled pass has not failed, so it gets no folder.
    - While passes run, only their positions are stored. The module comes from the failure hook: modules are immutable,
      so it is the input of the pass. A pass that violates this and changes its input in place gets the changed module.
    - The folder holds the answers of services, child processes, analyses and measurements that the pass asked for. So
      the pass fails in the same way without them.
    - Each folder is written under a temporary name and then renamed, without blocking the event loop. A cancellation
      does not interrupt the write.
    - If the adapter cannot write a module, the folder has no module file and states the reason.
    - A pass may end the process: by a segmentation fault, an abort, or too much memory. The input of a `native` pass is
      therefore written before the pass, and removed when the pass ends. What remains is made a reproducer when the next
      context with such an instrument is entered, see `recovered`. If a worker has died, it is made one at once.

    Parameters:
        reproducer_dir: the parent folder of the reproducers. It is created when the first pass fails.
        crash_safe: whether the input is written before every pass that `runs_alone`, not only before a native one.

    Raises:
        NotADirectoryError: if `reproducer_dir` is a file.

    """

    def __init__(self, reproducer_dir: Path | str, *, crash_safe: bool = False) -> None:
        self.reproducer_dir: Final = Path(reproducer_dir)
        """The parent folder of the reproducers."""
        self.crash_safe: Final = crash_safe
        """The `crash_safe` argument."""
        if self.reproducer_dir.exists() and not self.reproducer_dir.is_dir():
            raise NotADirectoryError(
                f"reproducers need a folder, got the file {str(reproducer_dir)!r}; choose another path"
            )
        self._base = self.reproducer_dir
        self._names = FolderNames()
        self._positions = PositionTracker()
        self._written: list[Path] = []
        self._answers = AnswersByRun()
        self._running = RunningInputs(self._base)
        self._inputs: WeakKeyDictionary[Run, Path] = WeakKeyDictionary()
        """The folders with the inputs of the passes that run."""
        self._recovered: list[Path] = []
        self._is_twin = False
        self._lock = Lock()

    @property
    def recovered(self) -> list[Path]:
        """The reproducers of passes of earlier runs whose process has ended, sorted.

        Several passes may have run when the process ended: those of concurrent modules.
        """
        with self._lock:
            return sorted(self._recovered)

    def recover(self) -> list[Path]:
        """Make reproducers of the inputs of ended processes; return the new ones.

        Raises:
            OSError: if a folder cannot be moved.

        """
        found = [self.reproducer_dir / folder.relative_to(self._base) for folder in recover_inputs(self._base)]
        with self._lock:
            self._recovered += found
        return found

    async def enter_pass_ctx(self) -> None:
        """Look for inputs of processes that have ended."""
        if not self._is_twin:
            await run_sync(self.recover)

    @property
    def folders(self) -> list[Path]:
        """The folders written so far, sorted."""
        with self._lock:
            return sorted(self._written)

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`).

        The twin writes the folders, so the worker must share the file system.
        """
        run = remote_run()
        name = run.module
        assigned = {} if name is None else {name: self._names.folder(name)}
        # The working directory of a worker may differ.
        base = self._base.absolute()
        return partial(
            ReproducerInstrument._make_twin,
            self.reproducer_dir,
            base,
            assigned,
            self._positions.reserve(run),
            self.crash_safe,
        )

    def worker_records(self) -> Sequence[Path]:
        """Return the folders, for `merge_records` of the original."""
        return self._written

    def merge_records(self, records: Sequence[Path]) -> None:
        """Add the folders that a twin has written."""
        with self._lock:
            self._written += records

    def module_lost(self, mod: Any, error: BaseException) -> None:
        """Name the input of the pass that ended the worker, or write the module."""
        if not isinstance(error, WorkerLostError | PassTimeoutError):
            return
        run = remote_run()
        inputs = [folder for folder in self.recover() if read_reproducer(folder).module == run.module]
        if inputs:
            with self._lock:
                self._written += inputs
            for folder in inputs:
                error.add_note(_FolderNote(f"reproducer: {folder}", run))
            return
        self._positions.begin(run)
        position = self._positions.position(run)
        if position is not None:
            written = capture(mod, run, position, PassContext.current(), backend_name(), None, error)
            folder = self.reproducer_dir / write_reproducer(self._folder(position), *written).relative_to(self._base)
            with self._lock:
                self._written.append(folder)
            error.add_note(_FolderNote(f"reproducer: {folder}", run))

    @classmethod
    def _make_twin(
        cls,
        folder: Path,
        base: Path,
        assigned: Mapping[str, str],
        first: Mapping[str | None, int],
        crash_safe: bool,
    ) -> Self:
        twin = cls(folder, crash_safe=crash_safe)
        twin._base = base
        twin._running = RunningInputs(base)
        twin._is_twin = True
        twin._names = FolderNames(assigned=assigned)
        twin._positions = PositionTracker(first)
        return twin

    def run_before_pass(self, mod: Any, info: PassInfo) -> Awaitable[None] | None:
        """Record the position of the pass, and write its input if it may end the process."""
        run = current_run()
        if run is None:
            return None
        position = self._positions.begin(run)
        pass_: Any = run.pass_
        if not isinstance(pass_, Pass) or not pass_.execution.runs_alone or is_row(run):
            return None
        return self._write_input(mod, run, position) if self.crash_safe or pass_.execution.native else None

    def run_after_pass(self, mod: Any, info: PassInfo) -> Awaitable[None] | None:
        """Remove the input of the pass."""
        run = current_run()
        folder = None if run is None else self._inputs.pop(run, None)
        return None if folder is None else run_sync(self._running.remove, folder)

    def on_answer(self, answer: Answer) -> None:
        """Keep the answer until the passes that asked for it have ended."""
        self._answers.add(answer)

    async def run_after_pass_failed(self, mod: Any, info: PassInfo, error: BaseException) -> None:
        """Write the folder, unless an inner pass has already written one for this error."""
        run = current_run()
        if run is not None and (folder := self._inputs.pop(run, None)) is not None:
            # The pass has ended, also by a cancellation.
            with anyio.CancelScope(shield=True):
                await run_sync(self._running.remove, folder)
        if run is None or not isinstance(error, Exception) or _has_folder(error, run):
            return
        pass_: Any = run.pass_
        if isinstance(pass_, Pass) and not pass_.execution.runs_alone:
            return
        position = self._positions.position(run)
        if position is None:
            return
        with anyio.CancelScope(shield=True):
            folder = self.reproducer_dir / (await self._write(mod, run, position, error)).relative_to(self._base)
            with self._lock:
                self._written.append(folder)
            error.add_note(_FolderNote(f"reproducer: {folder}", run))

    async def _write(self, mod: Any, run: Run, position: Position, error: Exception) -> Path:
        ctx, backend = PassContext.current(), backend_name()
        rest, answers = rest_text(run, position, ctx), self._answers.of(run)

        def write() -> Path:
            written = capture(mod, run, position, ctx, backend, rest, error, answers)
            return write_reproducer(self._folder(position), *written)

        # An adapter that is not thread-safe is called on the event loop, which blocks it.
        return await run_sync(write) if adapter_for(mod).thread_safe else write()

    async def _write_input(self, mod: Any, run: Run, position: Position) -> None:
        ctx, backend = PassContext.current(), backend_name()
        rest = rest_text(run, position, ctx)

        def write() -> Path:
            lost = WorkerLostError("the process ended while the pass ran")
            reproducer, data, _, _ = capture(mod, run, position, ctx, backend, rest, lost)
            return self._running.write(self._name(position), reproducer, data)

        # A folder that is written after a cancellation would look like that of a pass that has ended its process.
        with anyio.CancelScope(shield=True):
            self._inputs[run] = await run_sync(write) if adapter_for(mod).thread_safe else write()

    def _folder(self, position: Position) -> Path:
        return self._base / self._name(position)

    def _name(self, position: Position) -> Path:
        module = "module" if position.module is None else self._names.folder(position.module)
        steps = [f"{number}_{name}" + (f"@{func}" if func else "") for number, name, func in position.steps]
        return Path(module, file_name(".".join(steps[1:] or steps)))


class _FolderNote(RunNote):
    """A note that names the reproducer folder of an error."""

    __slots__ = ()


def _has_folder(error: BaseException, run: Run) -> bool:
    """Return whether an error or its chain has a folder of a pass within `run`."""
    todo, seen = [error], set[int]()
    while todo:
        current = todo.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        notes = [note for note in getattr(current, "__notes__", ()) if isinstance(note, _FolderNote)]
        if any(run in (inner, inner.body_of) for note in notes for inner in note.run.lineage):
            return True
        if isinstance(current, BaseExceptionGroup):
            todo += cast("BaseExceptionGroup[BaseException]", current).exceptions
        todo += [other for other in (current.__cause__, current.__context__) if other is not None]
    return False
