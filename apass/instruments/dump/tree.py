"""`DumpTree`: what every pass made of every module, in folders nested like the pipeline, to read and to go on from."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from os.path import relpath
from pathlib import Path
from time import perf_counter
from typing import Any, Final
from weakref import WeakKeyDictionary

import anyio
from anyio.to_thread import run_sync

from apass.core.adapter import adapter_for
from apass.core.info import PassInfo
from apass.core.instrument import pass_instrument
from apass.core.position import Numbering, Position
from apass.core.run import Run, current_run
from apass.errors import ResumeError
from apass.instruments.dump.index import Entry, module_index, top_index
from apass.instruments.support.change_tracker import ChangeTracker
from apass.instruments.support.outcomes import ending_text
from apass.instruments.support.paths import FolderNames, file_name
from apass.pipelines.resume import is_in_order
from apass.util.files import write_whole

__all__ = ["DumpTree", "Dumped", "read_dumped"]

MODULE_LINE: Final = "module: "
"""Begins the line of a header that names the file with the module."""
AFTER_LINE: Final = "after "
"""Begins the line of a header that names the position."""

Resume = Callable[[Position, Path], str]
"""Says how to go on after a pass, from the file of that position."""


@dataclass(slots=True, eq=False)
class _Open:
    """A run that has begun."""

    position: Position
    """Where it stands."""
    begin: float
    """When it began."""
    data: Path | None
    """The file with the module that the run works on now."""
    side: list[tuple[Any, Path | None]] = field(default_factory=list[tuple[Any, Path | None]])
    """Modules that passes on the side made, as the alternatives of a Race do, and their files."""


@pass_instrument
class DumpTree:
    """Writes what each pass returns to a folder for each module, nested like the pipeline, with an index.

    The second pass of a Sequential gives `MODULE/0_sequential/1_Name.txt`: a header, with the time, whether the pass
    changed anything and how to go on from here, and the module's text. Where it changed something, the module itself is
    beside it, in its own form (`.onnx`, `.relay`, `.json`); `apass.rest_of` gives the passes that are left.
    `MODULE/index.txt` lists the passes, `index.txt` the modules. What an outermost pass got is in
    `MODULE/0_sequential.input.txt`.

    Modules without a name are in the folder `module`. Every file is written whole, off the loop, even if the run is
    cancelled meanwhile. Files of an earlier dump are overwritten.

    Parameters:
        dump_dir: the folder; made when the first module is dumped.
        resume: what the header says of going on, from the position and the file; by default the Python for it.

    Raises:
        NotADirectoryError: if `dump_dir` is a file.

    """

    def __init__(self, dump_dir: Path | str, *, resume: Resume | None = None) -> None:
        self.dump_dir: Final = Path(dump_dir)
        """Where the files are."""
        if self.dump_dir.exists() and not self.dump_dir.is_dir():
            raise NotADirectoryError(f"DumpTree writes into a folder, and {str(dump_dir)!r} is a file; choose another")
        self._resume = _in_python if resume is None else resume
        self._names = FolderNames()
        self._numbering = Numbering()
        self._tracker = ChangeTracker()
        self._open: WeakKeyDictionary[Run, _Open] = WeakKeyDictionary()
        self._entries: dict[str | None, list[Entry]] = {}
        self._summaries: dict[str | None, str] = {}

    async def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Note the module; write it if the pass is an outermost one."""
        run = current_run()
        if run is None:
            return
        position = self._numbering.begin(run)
        above = None if run.parent is None else self._open.get(run.parent)
        is_going_on = run.parent is not None and self._tracker.input(run.parent) is mod
        self._tracker.begin(run, mod)
        opened = _Open(position, perf_counter(), above.data if above is not None and is_going_on else None)
        self._open[run] = opened
        if opened.data is None:
            path = self._path(position).with_suffix(".input.txt")
            opened.data = path.with_suffix(_suffix(mod))
            await _write(path, opened.data, f"# before {position.text} of {_whose(position)}\n", mod)
        opened.begin = perf_counter()

    async def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Write what the pass returned."""
        run = current_run()
        opened = None if run is None else self._open.pop(run, None)
        if run is None or opened is None:
            return
        seconds = perf_counter() - opened.begin
        before = self._tracker.end(run, mod)
        opened.data = next((path for one, path in opened.side if one is mod), opened.data)
        path = self._path(opened.position)
        if before is not mod or opened.data is None:
            opened.data = path.with_suffix(_suffix(mod))
            await _write(path, opened.data, self._header(run, opened, path, seconds, changed=True), mod)
        else:
            await _write_text(path, self._header(run, opened, path, seconds, changed=False))
        self._hand_up(run, opened, mod)
        await self._enter(run, Entry(opened.position, seconds, before is not mod, self._relative(path), None))

    async def run_after_pass_failed(self, mod: Any, info: PassInfo, error: BaseException) -> None:
        """Note the failure in the index."""
        run = current_run()
        opened = None if run is None else self._open.pop(run, None)
        if run is None or opened is None:
            return
        self._tracker.fail(run)
        seconds = perf_counter() - opened.begin
        what = ending_text(error).splitlines()[0]
        await self._enter(run, Entry(opened.position, seconds, False, None, what))

    async def exit_pass_ctx(self) -> None:
        """Write the index of the modules."""
        if self._summaries:
            await _write_text(self.dump_dir / "index.txt", top_index(self._summaries))

    def _hand_up(self, run: Run, opened: _Open, result: Any) -> None:
        """Tell the run that called this one where its module is."""
        above = None if run.parent is None else self._open.get(run.parent)
        if run.parent is None or above is None:
            return
        if self._tracker.input(run.parent) is result:
            above.data = opened.data
        else:
            above.side.append((result, opened.data))

    async def _enter(self, run: Run, entry: Entry) -> None:
        """Add an entry to the index of its module, and write that when the outermost pass has ended."""
        module = entry.position.module
        entries = self._entries.setdefault(module, [])
        entries.append(entry)
        if run.parent is None:
            text, self._summaries[module] = module_index(_whose(entry.position), entries)
            await _write_text(self._folder(module) / "index.txt", text)

    def _header(self, run: Run, opened: _Open, path: Path, seconds: float, *, changed: bool) -> str:
        assert opened.data is not None
        lines = [
            f"{AFTER_LINE}{opened.position.text} of {_whose(opened.position)}",
            f"{'changed' if changed else 'unchanged'}, {seconds * 1000:.3f} ms",
            f"{MODULE_LINE}{relpath(opened.data, path.parent)}",
            f"resume: {self._how_to_go_on(run, opened.position, path)}",
        ]
        if not changed:
            lines.append(f"text: {relpath(opened.data.with_suffix('.txt'), path.parent)}")
        return "".join(f"# {line}\n" for line in lines)

    def _how_to_go_on(self, run: Run, position: Position, path: Path) -> str:
        if is_in_order(run):
            return self._resume(position, path)
        # The outermost run is in order, as nothing is around it.
        around = next(one.body_of or one for one in run.lineage[1:] if is_in_order(one))
        known = self._numbering.position(around)
        other = "" if known is None else f", but from {relpath(self._path(known), path.parent)}"
        return f"not from here, within pass {around.info.name!r}{other}"

    def _folder(self, module: str | None) -> Path:
        return self.dump_dir / ("module" if module is None else self._names.folder(module))

    def _path(self, position: Position) -> Path:
        """Return the text file of a position."""
        folder = self._folder(position.module)
        parts = [file_name(f"{number}_{step}" + (f"@{func}" if func else "")) for number, step, func in position.steps]
        return folder.joinpath(*parts[:-1], f"{parts[-1]}.txt")

    def _relative(self, path: Path) -> str:
        return str(path.relative_to(self.dump_dir))


@dataclass(frozen=True, slots=True)
class Dumped:
    """What the header of a dumped file says."""

    position: Position
    """After which pass."""
    data: Path
    """The file with the module."""


def read_dumped(path: Path) -> Dumped:
    """Read the header of a file that DumpTree wrote.

    Raises:
        ResumeError: if it is none, or the module's file is not there.

    """
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            lines = [line.removeprefix("# ").rstrip("\n") for line in islice(file, 3)]
    except OSError as error:
        raise ResumeError(f"cannot go on from {str(path)!r}: {error.strerror}") from None
    if len(lines) < 3 or not lines[0].startswith(AFTER_LINE) or not lines[2].startswith(MODULE_LINE):
        raise ResumeError(f"cannot go on from {str(path)!r}: it is no text file that was dumped after a pass")
    data = path.parent / lines[2].removeprefix(MODULE_LINE)
    if not data.is_file():
        raise ResumeError(f"cannot go on from {str(path)!r}: the module's file {str(data)!r} is not there")
    try:
        return Dumped(Position.parse(lines[0].removeprefix(AFTER_LINE).rpartition(" of ")[0]), data)
    except ValueError as error:
        raise ResumeError(f"cannot go on from {str(path)!r}: {error}") from None


def _in_python(position: Position, path: Path) -> str:
    return f"apass.rest_of(pipeline, apass.Position.parse({position.text!r}))"


def _whose(position: Position) -> str:
    return "the module" if position.module is None else f"module {position.module!r}"


def _suffix(mod: Any) -> str:
    return str(getattr(adapter_for(mod), "suffix", ".bin"))


async def _write(path: Path, data: Path, header: str, mod: Any) -> None:
    """Write a module's text, and the module in its own form; in a worker thread where its adapter allows."""
    adapter = adapter_for(mod)

    def write() -> None:
        text = adapter.to_text(mod)
        write_whole(data, adapter.dumps(mod))
        write_whole(path, f"{header}\n{text}" + ("" if text.endswith("\n") else "\n"))

    await _finish(write, path, adapter.thread_safe)


async def _write_text(path: Path, text: str) -> None:
    await _finish(partial(write_whole, path, text), path, True)


async def _finish(write: Callable[[], None], path: Path, in_thread: bool) -> None:
    """Write, whatever happens meanwhile; a pass that has done its work is dumped even if it is cancelled now."""
    try:
        with anyio.CancelScope(shield=True):
            await (run_sync(write) if in_thread else _here(write))
    except Exception as error:
        error.add_note(f"DumpTree could not write {str(path)!r}")
        raise


async def _here(write: Callable[[], None]) -> None:
    write()
