"""Imports of other libraries, deferred until a module is used."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import final

__all__ = ["imported_late"]


@final
class _LateModule(ModuleType):
    """The substitute of a module, which is imported when one of its names is used."""

    def __getattr__(self, name: str) -> object:
        # While the module is in `sys.modules`, `import_module` would return it.
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


@contextmanager
def imported_late(*names: str) -> Generator[None]:
    """Defer imports of these modules, within the block, until they are used.

    An import of the form `import NAME` or `from PACKAGE import NAME` gives a substitute. The first use of one of its
    names imports the module. Modules that are already imported stay as they are. After the block, every import has its
    usual effect: this is the difference to `importlib.util.LazyLoader`, which changes the imports of all others, too.

    >>> with imported_late("this"):
    ...     import this
    >>> "this" in sys.modules
    False
    """
    late = {name: _LateModule(name) for name in names if name not in sys.modules}
    sys.modules.update(late)
    try:
        yield
    finally:
        for name, module in late.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
