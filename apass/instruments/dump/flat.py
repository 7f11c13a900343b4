"""`DumpIR`: writes the IR after every pass to numbered files."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.to_thread import run_sync

from apass.core.adapter import adapter_for
from apass.core.instrument import pass_instrument
from apass.core.pass_info import PassInfo
from apass.core.run import current_module_name
from apass.instruments.support.paths import FolderNames, file_name
from apass.util.files import PART_NAME, write_whole

__all__ = ["DumpIR"]

_DUMPED: Final = re.compile(rf"\d{{3,}}_.*\.txt|{PART_NAME}", re.DOTALL)
"""Matches the names of dumped files, and of partial files that a killed process left behind."""


@pass_instrument
class DumpIR:
    """Writes the module that each pass returns to numbered files; TVM's `DumpIR`.

    The files are `000_PassName.txt`, `001_...` and so on.

    - Each named module, as passed to `optimize_all` and similar functions, has its own folder and numbering.
      If the name is no valid folder name, it is adapted and a hash is appended.
    - A file appears under its name when it is complete. A cancellation does not interrupt the write.
    - The event loop is not blocked while a file is written.
    - If a dump fails, the pass fails with the error, as for any hook that raises. A note names the file. (TVM prints a
      warning and continues.)
    - Files of an earlier `DumpIR` with the same number and name are overwritten.

    Parameters:
        dump_dir: the output folder. It is created when the first module is dumped.
        refresh: empty the folder first, if it contains only dumped files.

    Raises:
        FileExistsError: with `refresh`, if the folder contains anything else. No file is removed.
        NotADirectoryError: if `dump_dir` is a file.

    """

    not_for_worker: Final = "the files of all modules are numbered in one order; DumpTree can be used in workers"
    """The reason why whole modules in an executor cannot be observed."""

    def __init__(self, dump_dir: Path | str, refresh: bool = False) -> None:
        self.dump_dir: Final = Path(dump_dir)
        """The output folder."""
        if self.dump_dir.exists() and not self.dump_dir.is_dir():
            raise NotADirectoryError(f"DumpIR needs a folder, got the file {str(dump_dir)!r}; choose another path")
        self._counts: Counter[str | None] = Counter()
        self._names = FolderNames(reserved=_DUMPED)
        if refresh and self.dump_dir.is_dir():
            _empty(self.dump_dir)

    async def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Write the module to the next file."""
        module = current_module_name()
        number = self._counts[module]
        self._counts[module] += 1
        folder = self.dump_dir if module is None else self.dump_dir / self._names.folder(module)
        path = folder / f"{number:03d}_{file_name(info.name)}.txt"
        try:
            text = adapter_for(mod).to_text(mod)
            # The pass has finished, so its result is dumped even if the run is cancelled now.
            with anyio.CancelScope(shield=True):
                ended = text if text.endswith("\n") else text + "\n"
                await run_sync(partial(write_whole, path, ended, durable=False))
        except Exception as error:
            error.add_note(f"DumpIR could not write {str(path)!r}")
            raise


def _empty(folder: Path) -> None:
    """Remove the dumped files and their folders.

    Raises:
        FileExistsError: if the folder contains anything else. No file is removed.

    """
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
                f"refresh=True would empty {str(path.parent)!r}, but {path.name!r} in it is no dumped file; "
                "no file was removed: remove it yourself, or choose another dump_dir"
            )
