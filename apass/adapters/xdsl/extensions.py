"""`register_dialect` and `register_xdsl_pass`: dialects and passes of users.

A file for `--load` calls them, and so does a package, in the modules that its entry points name.
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, TypeVar

from xdsl.ir import Dialect
from xdsl.passes import ModulePass

from apass.adapters.xdsl.passes import provide_xdsl_pass
from apass.adapters.xdsl.text import DIALECTS
from apass.errors import AdapterError, PassRegistrationError

__all__ = ["register_dialect", "register_xdsl_pass", "registered_passes"]

PassT = TypeVar("PassT", bound=type[ModulePass])

_PASSES: Final[dict[str, type[ModulePass]]] = {}
"""The passes of users, by name."""


def register_dialect(dialect: Dialect) -> Dialect:
    """Let all passes, files and commands of xDSL know a dialect; return it.

    A dialect that is registered later under the same name replaces it.

    Raises:
        AdapterError: if it is no dialect.

    """
    if not isinstance(dialect, Dialect):
        raise AdapterError(f"register_dialect takes a Dialect of xDSL, got {dialect!r}")
    DIALECTS[dialect.name] = lambda: dialect
    return dialect


def register_xdsl_pass(library_pass: PassT) -> PassT:
    """Register a class of passes of xDSL as `xdsl.NAME`, and return it.

    Its fields are the options. `apass xdsl-opt -p NAME` knows it as well.

    Raises:
        PassRegistrationError: if it is no class of passes with a name.

    """
    name: object = getattr(library_pass, "name", None)
    if not (isinstance(library_pass, type) and issubclass(library_pass, ModulePass) and isinstance(name, str)):
        raise PassRegistrationError(f"register_xdsl_pass takes a ModulePass of xDSL with a name, got {library_pass!r}")
    _PASSES[name] = library_pass
    provide_xdsl_pass(name, partial(_itself, library_pass))
    return library_pass


def _itself(library_pass: type[ModulePass]) -> type[ModulePass]:
    return library_pass


def registered_passes() -> Mapping[str, type[ModulePass]]:
    """Return the passes of users, by name."""
    return MappingProxyType(_PASSES)
