"""Look-up of names that come from text or files, without importing anything."""

import sys
from types import ModuleType

__all__ = ["find_imported"]


def find_imported(name: str) -> object | None:
    """Return the object named `package.module:qualified.name`, or None.

    Only modules that are already imported are searched: the name may come from an untrusted file, and importing a
    module runs its code.

    >>> find_imported("apass.util.imported_names:find_imported") is find_imported
    True
    >>> find_imported("antigravity:fly") is None
    True
    """
    module, _, path = name.partition(":")
    found: object = sys.modules.get(module)
    for part in path.split("."):
        # `getattr` on a module may call its `__getattr__`, which may import other modules.
        found = (
            vars(found).get(part)
            if isinstance(found, ModuleType)
            else (getattr(found, part, None) if isinstance(found, type) else None)
        )
    return found
