"""Names of a package that are imported when they are first used."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

__all__ = ["lazy_names"]


def lazy_names(
    package: str, modules: Mapping[str, Sequence[str]], elsewhere: Sequence[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package with lazily imported names.

    A name is imported when it is first used.

    Type checkers do not read the table, so the package repeats it as imports under `TYPE_CHECKING`.

    Parameters:
        package: the `__name__` of the package.
        modules: the names that each module defines. The names of `package` are its modules.
        elsewhere: other packages and modules. The error for a name that is public in one of them names it.

    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> object:
        module = module_of.get(name)
        if module is None:
            message = f"module {package!r} has no attribute {name!r}"
            # Python asks for private names, such as `__path__`. They need no look into other packages.
            candidates = () if name.startswith("_") else elsewhere
            owner = next((other for other in candidates if name in import_module(other).__all__), None)
            if owner is None:
                raise AttributeError(message)
            message += f"; it is in {owner}: from {owner} import {name}"
            # In `from ... import`, Python replaces an AttributeError by an ImportError without this message.
            raise (ImportError if _is_imported() else AttributeError)(message)
        value = import_module(f"{package}.{name}") if module == package else getattr(import_module(module), name)
        # The next use finds the name in the package, without a call.
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return get, names


def _is_imported() -> bool:
    """Return whether the caller of `__getattr__` executes `from ... import ...`."""
    # Few programs look for a name in the wrong package, and these modules take long to import.
    from dis import opmap
    from inspect import currentframe

    own = currentframe()
    frame = own and own.f_back and own.f_back.f_back
    return frame is not None and frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]
