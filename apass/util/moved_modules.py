"""Old names of documented modules, importable with a DeprecationWarning."""

import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Any, Final, cast, final

__all__ = ["install"]

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@final
class _Finder:
    """Finds modules by their old names, and fills them from the present ones.

    It is a finder and a loader by its methods: `importlib.abc`, which defines the base classes, imports much of the
    standard library.
    """

    def __init__(self, moved: Mapping[str, Sequence[str]], renamed: Mapping[str, str]) -> None:
        self.moved = moved
        self.renamed = renamed

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, cast("Any", self)) if fullname in self.moved else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python create the module."""

    def exec_module(self, module: ModuleType) -> None:
        present = self.moved[module.__name__]
        message = f"the module {module.__name__} is {' and '.join(present)} now; import from there, or from apass"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        for name in present:
            names = {key: value for key, value in vars(import_module(name)).items() if not key.startswith("__")}
            vars(module).update(names, **{old: names[new] for old, new in self.renamed.items() if new in names})


def install(moved: Mapping[str, Sequence[str]], renamed: Mapping[str, str] = _NOTHING) -> None:
    """Make modules importable by their old names.

    Parameters:
        moved: the present modules by old name.
        renamed: the present names of their objects by old name.

    """
    sys.meta_path.append(_Finder(moved, renamed))
