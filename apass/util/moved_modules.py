"""The documented modules of earlier revisions, importable by their old names.

An import emits a DeprecationWarning and copies the names of the module's present place.
"""

import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Final, final

__all__ = ["MOVED", "install"]

MOVED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "apass.adapters.onnx_outputs": ("apass.adapters.onnx.outputs",),
        "apass.adapters.onnx_passes": ("apass.adapters.onnx.passes",),
        "apass.analyses": ("apass.core.analysis_manager",),
        "apass.config": ("apass.core.config",),
        "apass.decorators": ("apass.passes.decorators", "apass.passes.options"),
        "apass.fingerprint": ("apass.util.fingerprint",),
        "apass.optimize": ("apass.batch.optimize", "apass.batch.stream"),
        "apass.promises": ("apass.passes.options",),
        "apass.reducing": ("apass.debugging.reduce",),
        "apass.registry": ("apass.passes.registry",),
        "apass.reproducers": ("apass.instruments.reproducer.folder",),
        "apass.shrinking": ("apass.util.delta_debugging",),
        "apass.single_flight": ("apass.concurrency.single_flight",),
        "apass.store": ("apass.core.store",),
    }
)
"""The present modules of each one."""

_RENAMED: Final = MappingProxyType({"Analyses": "AnalysisManager", "Promises": "PassOptions"})
"""The present names of objects that were renamed."""


@final
class _Finder(MetaPathFinder, Loader):
    """Finds and loads the modules of `MOVED`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        places = MOVED[module.__name__]
        message = (
            f"the module {module.__name__} is {' and '.join(places)} now; import its names from apass, or from there"
        )
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        for place in places:
            names = {name: value for name, value in vars(import_module(place)).items() if not name.startswith("__")}
            vars(module).update(names, **{old: names[new] for old, new in _RENAMED.items() if new in names})


def install() -> None:
    """Make the old names importable; a second call has no effect."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
