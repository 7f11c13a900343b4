"""Relay's standard library, written in Relay's text format.

`IRModule.import_from_std` reads it.
"""

from functools import cache
from importlib.resources import files
from typing import Final

from apass.relay.ir.module import IRModule, set_std_importer
from apass.relay.parser import parse

__all__ = ["import_std"]

_DEPENDENCIES: Final = {"nat.rly": "prelude.rly"}
"""The file that a library file depends on."""


def import_std(mod: IRModule, file_path: str) -> None:
    """Add the definitions of a library file to a module.

    If the module has all of them, it is left unchanged. Each call adds the same objects.

    Raises:
        FileNotFoundError: if there is no such file; the message lists the files that exist.

    """
    std = _read(file_path)
    if not _names(std) <= _names(mod):
        mod.update(std)


def _names(mod: IRModule) -> set[str]:
    return {gvar.name_hint for gvar in mod.get_global_vars()} | {ty.name_hint for ty in mod.get_global_type_vars()}


# Cached, because a data type is equal only to itself: all modules share one definition of List.
@cache
def _read(file_path: str) -> IRModule:
    available = sorted(entry.name for entry in files(__name__).iterdir() if entry.name.endswith(".rly"))
    if file_path not in available:
        raise FileNotFoundError(f"the standard library has no file {file_path!r}; it has {', '.join(available)}")
    dependency = _DEPENDENCIES.get(file_path)
    text = (files(__name__) / file_path).read_text(encoding="utf-8")
    return parse(text, file_path, None if dependency is None else _read(dependency))


set_std_importer(import_std)
