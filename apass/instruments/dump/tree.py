"""`DumpTree`: writes the result of every pass to folders nested like the pipeline."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from os.path import relpath
from pathlib import Path
from typing import Any, Final, Self
from weakref import WeakKeyDictionary

import anyio
from anyio.to_thread import run_sync

from apass.core.adapter import adapter_for
from apass.core.instrument import pass_instrument
from apass.core.ir_plugin import data_suffix
from apass.core.pass_info import PassInfo
from apass.core.position import Position, PositionTracker
from apass.core.run import Run, current_run
from apass.errors import ResumeError
from apass.executors.instrument_twins import remote_run
from apass.instruments.dump.index import DumpEntry, module_index, top_index
from apass.instruments.support.change_tracker import ChangeTracker
from apass.instruments.support.outcomes import ending_text
from apass.instruments.support.paths import FolderNames, unique_file_name
from apass.instruments.support.printing import pass_title
from apass.pipelines.resume import is_in_order
from apass.util.files import write_whole
from apass.util.printable import printable

__all__ = ["DumpHeader", "DumpTree", "read_dumped"]

MODULE_LINE: Final = "module: "
"""Prefix of the header line that names the module's file."""
AFTER_LINE: Final = "after "
"""Prefix of the header line that names the position."""

Resume = Callable[[Position, Path], str]
"""Returns the instructions for resuming after a position, given the position and its file."""


@dataclass(slots=True, eq=False)
class _DumpState:
    """The state of a pass that has not ended."""

    position: Position
    """The position of the pass."""
    data: Path | None
    """The file with the module that the pass works on now."""
    side: list[tuple[Any, Path | None]] = field(default_factory=list[tuple[Any, Path | None]])
    """Results of inner passes that did not receive that module, such as alternatives of a Race, and their files."""


@pass_instrument
class DumpTree:
    """Writes what each pass returns to folders nested like the pipeline.

    The second pass of a Sequential writes `MODULE/0_sequential/1_Name.txt`. The file holds a header and the
    module's text. The header states the time, the options of the pass, whether it changed the module, and how to resume
    after it.

    - If the pass changed the module, the module itself is written beside the text in its own format (`.onnx`, `.relay`,
      `.json`). `apass.rest_of` returns the passes that are left.
    - The input of an outermost pass is in `MODULE/0_sequential.input.txt`.
    - `MODULE/index.txt` lists the passes of a module, and `index.txt` lists the modules.
    - Modules without a name are written to the folder `module`.
    - A file appears under its name when it is complete. The event loop is not blocked, and a cancellation does not
      interrupt the write.
    - Files of an earlier dump are overwritten.

    Parameters:
        dump_dir: the output folder. It is created when the first module is dumped.
        resume: returns the resume instructions for the header, given the position and the file. By default, the
            header contains a Python expression.

    Raises:
        NotADirectoryError: if `dump_dir` is a file.

    """

    def __init__(self, dump_dir: Path | str, *, resume: Resume | None = None) -> None:
        self.dump_dir: Final = Path(dump_dir)
        """The output folder."""
        if self.dump_dir.exists() and not self.dump_dir.is_dir():
            raise NotADirectoryError(f"DumpTree needs a folder, got the file {str(dump_dir)!r}; choose another path")
        self._resume = _resume_expression if resume is None else resume
        self._names = FolderNames()
        self._positions = PositionTracker()
        self._tracker = ChangeTracker()
        self._open: WeakKeyDictionary[Run, _DumpState] = WeakKeyDictionary()
        self._entries: dict[str | None, list[DumpEntry]] = {}
        self._summaries: dict[str | None, str] = {}
        self._is_twin = False
        self._base = self.dump_dir

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`).

        The twin writes the files of a module, so the worker must share the file system.
        """
        run = remote_run()
        name = run.module
        # The working directory of a worker may differ.
        base = self._base.absolute()
        assigned = {} if name is None else {name: self._names.folder(name)}
        entries = tuple(self._entries.get(name, ()))
        first = self._positions.reserve(run)
        return partial(DumpTree._make_twin, self.dump_dir, base, self._resume, name, entries, assigned, first)

    def worker_records(self) -> "_Records":
        """Return the entries of the index, for `merge_records` of the original."""
        return _Records(self._entries, self._summaries)

    def merge_records(self, records: "_Records") -> None:
        """Add what a twin has dumped to the index of modules."""
        self._entries |= records.entries
        self._summaries |= records.summaries

    @classmethod
    def _make_twin(
        cls,
        folder: Path,
        base: Path,
        resume: Resume,
        module: str | None,
        entries: Sequence[DumpEntry],
        assigned: Mapping[str, str],
        first: Mapping[str | None, int],
    ) -> Self:
        twin = cls(folder, resume=resume)
        twin._entries[module] = list(entries)
        twin._names = FolderNames(assigned=assigned)
        twin._positions = PositionTracker(first)
        twin._is_twin = True
        twin._base = base
        return twin

    async def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Record the module, and write it if the pass is an outermost one."""
        run = current_run()
        if run is None:
            return
        position = self._positions.begin(run)
        above = None if run.parent is None else self._open.get(run.parent)
        is_going_on = run.parent is not None and self._tracker.input(run.parent) is mod
        self._tracker.begin(run, mod)
        state = _DumpState(position, above.data if above is not None and is_going_on else None)
        self._open[run] = state
        if state.data is None:
            path = self._path(position).with_suffix(".input.txt")
            state.data = path.with_suffix(data_suffix(mod))
            await _write(path, state.data, f"# before {position.text} of {_module_label(position)}\n", mod)

    async def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Write what the pass returned."""
        run = current_run()
        state = None if run is None else self._open.pop(run, None)
        if run is None or state is None:
            return
        seconds = run.seconds
        before = self._tracker.end(run, mod)
        state.data = next((path for result, path in state.side if result is mod), state.data)
        path = self._path(state.position)
        if before is not mod or state.data is None:
            state.data = path.with_suffix(data_suffix(mod))
            await _write(path, state.data, self._header(run, state, path, seconds, changed=True), mod)
        else:
            await _write_text(path, self._header(run, state, path, seconds, changed=False))
        self._pass_to_caller(run, state, mod)
        await self._enter(run, DumpEntry(state.position, seconds, before is not mod, self._relative(path), None))

    async def run_after_pass_failed(self, mod: Any, info: PassInfo, error: BaseException) -> None:
        """Add the failure to the index."""
        run = current_run()
        state = None if run is None else self._open.pop(run, None)
        if run is None or state is None:
            return
        self._tracker.fail(run)
        seconds = run.seconds
        failure = ending_text(error).splitlines()[0]
        await self._enter(run, DumpEntry(state.position, seconds, False, None, failure))

    async def exit_pass_ctx(self) -> None:
        """Write the index of the modules."""
        if self._summaries and not self._is_twin:
            await _write_text(self.dump_dir / "index.txt", top_index(self._summaries))

    def _pass_to_caller(self, run: Run, state: _DumpState, result: Any) -> None:
        """Pass the result and its file to the caller of the run."""
        above = None if run.parent is None else self._open.get(run.parent)
        if run.parent is None or above is None:
            return
        if self._tracker.input(run.parent) is result:
            above.data = state.data
        else:
            above.side.append((result, state.data))

    async def _enter(self, run: Run, entry: DumpEntry) -> None:
        """Add an entry to the module's index, and write it after the outermost pass."""
        module = entry.position.module
        entries = self._entries.setdefault(module, [])
        entries.append(entry)
        if run.parent is None:
            text, self._summaries[module] = module_index(_module_label(entry.position), entries)
            await _write_text(self._folder(module) / "index.txt", text)

    def _header(self, run: Run, state: _DumpState, path: Path, seconds: float, *, changed: bool) -> str:
        assert state.data is not None
        lines = [
            f"{AFTER_LINE}{state.position.text} of {_module_label(state.position)}",
            f"{'changed' if changed else 'unchanged'}, {seconds * 1000:.3f} ms",
            f"{MODULE_LINE}{relpath(state.data, path.parent)}",
            f"resume: {self._resume_text(run, state.position, path)}",
        ]
        if (title := pass_title(run.info)) != run.info.name:
            lines.append(f"pass: {title}")
        if not changed:
            lines.append(f"text: {relpath(state.data.with_suffix('.txt'), path.parent)}")
        # One line each: a name with a line end must not forge the line of the module's file.
        return "".join(f"# {printable(line)}\n" for line in lines)

    def _resume_text(self, run: Run, position: Position, path: Path) -> str:
        if is_in_order(run):
            return self._resume(position, self.dump_dir / path.relative_to(self._base))
        # The outermost run has no enclosing pass, so it is always in order and `next` finds a run.
        enclosing = next(outer.body_of or outer for outer in run.lineage[1:] if is_in_order(outer))
        outer_position = self._positions.position(enclosing)
        other = "" if outer_position is None else f", but from {relpath(self._path(outer_position), path.parent)}"
        return f"not from here, within pass {enclosing.info.name!r}{other}"

    def _folder(self, module: str | None) -> Path:
        return self._base / ("module" if module is None else self._names.folder(module))

    def _path(self, position: Position) -> Path:
        """Return the path of the text file for a position."""
        folder = self._folder(position.module)
        steps = [f"{number}_{step}" + (f"@{func}" if func else "") for number, step, func in position.steps]
        # Functions such as `a/b` and `a.b` must not share a folder.
        parts = [unique_file_name(step) for step in steps]
        return folder.joinpath(*parts[:-1], f"{parts[-1]}.txt")

    def _relative(self, path: Path) -> str:
        return str(path.relative_to(self._base))


@dataclass(frozen=True, slots=True)
class _Records:
    """What a twin has recorded."""

    entries: Mapping[str | None, list[DumpEntry]]
    summaries: Mapping[str | None, str]


@dataclass(frozen=True, slots=True)
class DumpHeader:
    """The content of a dumped file's header."""

    position: Position
    """The position of the pass whose result was dumped."""
    data: Path
    """The file with the module."""


def read_dumped(path: Path) -> DumpHeader:
    """Return the header of a file that `DumpTree` wrote.

    Raises:
        ResumeError: if the file was not written by `DumpTree`, or the module's file is missing.

    """
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            lines = [line.removeprefix("# ").rstrip("\n") for line in islice(file, 3)]
    except OSError as error:
        raise ResumeError(f"cannot resume from {str(path)!r}: {error.strerror}") from None
    if len(lines) < 3 or not lines[0].startswith(AFTER_LINE) or not lines[2].startswith(MODULE_LINE):
        raise ResumeError(f"cannot resume from {str(path)!r}: it is no text file that DumpTree wrote after a pass")
    try:
        position = Position.parse(lines[0].removeprefix(AFTER_LINE).rpartition(" of ")[0])
        data = path.parent / lines[2].removeprefix(MODULE_LINE)
        # The folder of the model has a folder for each enclosing pass.
        folder = path.absolute().parents[len(position.steps) - 1]
        is_inside = data.resolve().is_relative_to(folder.resolve())
    except (ValueError, IndexError) as error:
        raise ResumeError(f"cannot resume from {str(path)!r}: {error}") from None
    if not is_inside:
        raise ResumeError(
            f"cannot resume from {str(path)!r}: the module's file {str(data)!r} is outside of the dump {str(folder)!r}"
        )
    if not data.is_file():
        raise ResumeError(f"cannot resume from {str(path)!r}: the module's file {str(data)!r} is missing")
    return DumpHeader(position, data)


def _resume_expression(position: Position, path: Path) -> str:
    return f"apass.rest_of(pipeline, apass.Position.parse({position.text!r}))"


def _module_label(position: Position) -> str:
    return "the module" if position.module is None else f"module {position.module!r}"


async def _write(path: Path, data: Path, header: str, mod: Any) -> None:
    """Write a module's text and the module itself.

    The work is done in a worker thread if the adapter is thread-safe.
    """
    adapter = adapter_for(mod)

    def write() -> None:
        text = adapter.to_text(mod)
        write_whole(data, adapter.dumps(mod), durable=False)
        write_whole(path, f"{header}\n{text}" + ("" if text.endswith("\n") else "\n"), durable=False)

    await _write_shielded(write, path, adapter.thread_safe)


async def _write_text(path: Path, text: str) -> None:
    await _write_shielded(partial(write_whole, path, text, durable=False), path, True)


async def _write_shielded(write: Callable[[], None], path: Path, in_thread: bool) -> None:
    """Run `write` to completion, even if the run is cancelled meanwhile."""
    try:
        with anyio.CancelScope(shield=True):
            await (run_sync(write) if in_thread else _call_inline(write))
    except Exception as error:
        error.add_note(f"DumpTree could not write {str(path)!r}")
        raise


async def _call_inline(write: Callable[[], None]) -> None:
    write()
