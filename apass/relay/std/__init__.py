"""Relay's standard library, in Relay's text; `IRModule.import_from_std` reads it."""

from functools import cache
from importlib.resources import files
from typing import Final

from apass.relay.ir.module import IRModule, set_std_importer
from apass.relay.parser import parse

__all__ = ["import_std"]

_KNOWN: Final = {"nat.rly": "prelude.rly"}
"""The file whose definitions a file uses."""


def import_std(mod: IRModule, file_path: str) -> None:
    """Add what a file of the library defines to a module, unless all of it is there; the same objects each time.

    Raises:
        FileNotFoundError: if there is no such file; the message lists those that there are.

    """
    std = _read(file_path)
    if not _names(std) <= _names(mod):
        mod.update(std)


def _names(mod: IRModule) -> set[str]:
    return {gvar.name_hint for gvar in mod.get_global_vars()} | {ty.name_hint for ty in mod.get_global_type_vars()}


@cache
def _read(file_path: str) -> IRModule:
    known = sorted(one.name for one in files(__name__).iterdir() if one.name.endswith(".rly"))
    if file_path not in known:
        raise FileNotFoundError(f"the standard library has no file {file_path!r}; it has {', '.join(known)}")
    needed = _KNOWN.get(file_path)
    text = (files(__name__) / file_path).read_text(encoding="utf-8")
    return parse(text, file_path, None if needed is None else _read(needed))


set_std_importer(import_std)
