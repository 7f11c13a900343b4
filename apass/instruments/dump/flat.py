"""`DumpIR`: the IR after every pass, in numbered files; for comparing what each pass of a pipeline did."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.to_thread import run_sync

from apass.core.adapter import adapter_for
from apass.core.info import PassInfo
from apass.core.instrument import pass_instrument
from apass.core.run import current_module_name
from apass.instruments.support.paths import FolderNames, file_name
from apass.util.files import write_whole

__all__ = ["DumpIR"]

_DUMPED: Final = re.compile(r"\d{3,}_.*\.txt|\.\d{3,}_.*\.txt\.part", re.DOTALL)
"""The names of dumped files, and of those that a killed process left half written."""


@pass_instrument
class DumpIR:
    """Writes the module that each pass returns to `000_PassName.txt`, `001_...` and so on; TVM's `DumpIR`.

    Modules with a name, as `optimize_all` and its like give them, have a folder and a count each; a name that cannot be
    that of a folder is changed, with a hash for difference. A file appears under its name when it is written in full,
    even if the run is cancelled meanwhile. The loop is not held while a file is written.

    A dump that fails ends its pass with the error, as a hook does that raises; a note names the file. (TVM prints a
    warning and goes on.) Files of an earlier DumpIR are overwritten number by number.

    Parameters:
        dump_dir: the folder; made when the first module is dumped.
        refresh: empty the folder first, if it holds nothing but dumped files.

    Raises:
        FileExistsError: with `refresh`, if the folder holds anything else; nothing is removed then.
        NotADirectoryError: if `dump_dir` is a file.

    """

    def __init__(self, dump_dir: Path | str, refresh: bool = False) -> None:
        self.dump_dir: Final = Path(dump_dir)
        """Where the files are."""
        if self.dump_dir.exists() and not self.dump_dir.is_dir():
            raise NotADirectoryError(f"DumpIR writes into a folder, and {str(dump_dir)!r} is a file; choose another")
        self._counts: Counter[str | None] = Counter()
        self._names = FolderNames(reserved=_DUMPED)
        if refresh and self.dump_dir.is_dir():
            _empty(self.dump_dir)

    async def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Write the module to the next file."""
        path = self._next_path(current_module_name(), info.name)
        try:
            text = adapter_for(mod).to_text(mod)
            # A pass that has done its work is dumped even if it is cancelled now.
            with anyio.CancelScope(shield=True):
                await run_sync(write_whole, path, text if text.endswith("\n") else text + "\n")
        except Exception as error:
            error.add_note(f"DumpIR could not write {str(path)!r}")
            raise

    def _next_path(self, module: str | None, pass_name: str) -> Path:
        number = self._counts[module]
        self._counts[module] += 1
        folder = self.dump_dir if module is None else self.dump_dir / self._names.folder(module)
        return folder / f"{number:03d}_{file_name(pass_name)}.txt"


def _empty(folder: Path) -> None:
    """Remove the dumped files and their folders; FileExistsError, before anything is removed, if there is more."""
    files = list(_dumped_files(folder))
    for file in files:
        file.unlink()
    for inner in {file.parent for file in files} - {folder}:
        inner.rmdir()


def _dumped_files(folder: Path, depth: int = 0) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        is_folder = path.is_dir() and not path.is_symlink()
        if is_folder and depth == 0:
            yield from _dumped_files(path, depth + 1)
        elif not is_folder and _DUMPED.fullmatch(path.name):
            yield path
        else:
            raise FileExistsError(
                f"refresh=True would empty {str(path.parent)!r}, which holds {path.name!r}, no dumped file; "
                "nothing was removed: clear it by hand, or choose another dump_dir"
            )
