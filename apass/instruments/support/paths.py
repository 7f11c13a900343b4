"""File and folder names for modules and passes, valid on every file system."""

import re
from collections.abc import Mapping
from hashlib import sha256
from threading import Lock
from typing import Final

__all__ = ["FolderNames", "file_name", "unique_file_name"]

_UNFIT: Final = re.compile(r"[^\w.@-]|^\.|\.$", re.ASCII)
"""Characters, and dots at the start or end, that not every file system allows in a name."""
_LONGEST: Final = 100
"""Maximum length of a file name, in characters."""


def file_name(name: str) -> str:
    """Return a valid file name for `name`, truncated to 100 characters.

    >>> file_name("onnx.Fold/Constant")
    'onnx.Fold_Constant'
    """
    return _UNFIT.sub("_", name)[:_LONGEST]


def unique_file_name(name: str) -> str:
    """Return `name` if it is a valid file name, else an adapted one with a hash."""
    return name if file_name(name) == name != "" else _hashed(name)


class FolderNames:
    """Assigns a unique folder name to each module.

    A module's name is used unchanged if it is a valid file name. Otherwise, the name is adapted and a hash is appended.
    Names that `reserved` matches are adapted as well.

    Parameters:
        reserved: names to adapt.
        assigned: folder names by module, as assigned by another object, in whose worker this one is.

    """

    def __init__(self, reserved: re.Pattern[str] | None = None, assigned: Mapping[str, str] | None = None) -> None:
        self._reserved = reserved
        self._assigned = assigned or {}
        self._named: dict[str, str] = {}
        self._lock = Lock()

    def folder(self, module: str) -> str:
        """Return the folder name of a module; repeated calls return the same name."""
        if module in self._assigned:
            return self._assigned[module]
        if file_name(module) == module != "" and not (self._reserved and self._reserved.fullmatch(module)):
            # Names that differ only in case are the same name on some file systems (macOS, Windows).
            with self._lock:
                if self._named.setdefault(module.casefold(), module) == module:
                    return module
        return _hashed(module)


def _hashed(name: str) -> str:
    return f"{file_name(name)}~{sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"
