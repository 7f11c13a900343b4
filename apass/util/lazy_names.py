"""Names of a package that are imported when they are first used."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

__all__ = ["lazy_names"]


def lazy_names(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package with lazily imported names.

    A name is imported when it is first used.

    Type checkers do not read the table, so the package repeats it as imports under `TYPE_CHECKING`.

    Parameters:
        package: the `__name__` of the package.
        modules: the names that each module defines. The names of `package` are its modules.

    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> object:
        module = module_of.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = import_module(f"{package}.{name}") if module == package else getattr(import_module(module), name)
        # The next use finds the name in the package, without a call.
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return get, names
