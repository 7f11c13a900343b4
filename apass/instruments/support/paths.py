"""Names of folders and files for modules and passes, fit for every file system."""

import re
from hashlib import sha256
from threading import Lock
from typing import Final

__all__ = ["FolderNames", "file_name"]

_UNFIT: Final = re.compile(r"[^\w.@-]|^\.|\.$", re.ASCII)
"""What the name of a folder cannot hold everywhere."""
_LONGEST: Final = 100
"""How many characters of a name go into the name of a file."""


def file_name(name: str) -> str:
    """Return a name fit for a file, shortened where it is long.

    >>> file_name("onnx.Fold/Constant")
    'onnx.Fold_Constant'
    """
    return _UNFIT.sub("_", name)[:_LONGEST]


class FolderNames:
    """Gives each module a folder name of its own: its name, changed, with a hash for difference, where it must be.

    Names that `reserved` matches are changed, too.
    """

    def __init__(self, reserved: re.Pattern[str] | None = None) -> None:
        self._reserved = reserved
        self._named: dict[str, str] = {}
        self._lock = Lock()

    def folder(self, module: str) -> str:
        """Return the folder for a module, the same each time."""
        fit = file_name(module)
        if fit == module != "" and not (self._reserved and self._reserved.fullmatch(module)):
            # Some file systems take names for the same that differ in case.
            with self._lock:
                if self._named.setdefault(module.casefold(), module) == module:
                    return module
        return f"{fit}~{sha256(module.encode(errors='surrogatepass')).hexdigest()[:8]}"
