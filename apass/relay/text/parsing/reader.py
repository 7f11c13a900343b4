"""What a text says, as modules and expressions without types: the inverse of `apass.relay.text.printing.printer`."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from apass.relay.adt import Constructor
from apass.relay.base import SourceName
from apass.relay.expr import Expr, GlobalVar
from apass.relay.ir.module import IRModule
from apass.relay.text.literals import name_text
from apass.relay.text.metadata import MetadataError, MetaTable, read_metadata
from apass.relay.text.parsing.builder import Builder, Definitions
from apass.relay.text.parsing.lalr import drive
from apass.relay.text.parsing.source import Source, TextError
from apass.relay.text.parsing.tables import load_tables
from apass.relay.ty import GlobalTypeVar

__all__ = ["read_expr", "read_module"]

_METADATA: Final = re.compile(r"^[ \t]*#\[\s*metadata\s*\]", re.MULTILINE)


def read_module(
    text: str,
    source_name: str = "from_string",
    init_module: IRModule | None = None,
    init_meta_table: MetaTable | None = None,
    *,
    needs_version: bool = False,
) -> IRModule:
    """Return the module that a text defines, as it stands there: it has no types but those that are written.

    The functions and data types of `init_module` may be used in it, and are in the result; `init_meta_table` has
    objects by type key that it refers to as `meta[key][index]`, besides those of its own metadata section.

    Raises:
        ParseError: if the text is not Relay, or needs to name its version and does not; the message shows the place.

    >>> print(read_module("def @main(%x: int32) { (%x, 1) }"))
    def @main(%x: int32) {
      (%x, 1)
    }
    <BLANKLINE>
    """
    made = IRModule() if init_module is None else init_module.copy()
    parts = _split(text)
    source = Source(SourceName(source_name), parts.program)
    definitions = cast("Definitions", _parse("module", source, parts, made, init_meta_table or {}))
    if needs_version and definitions.version is None:
        advice = 'write `#[version = "0.0.5"]` before it'
        raise source.error(TextError("the text does not name its version", 0, 0, advice))
    made.update(IRModule(definitions.functions, definitions.types))
    made.source_map[source_name] = parts.program
    return made


def read_expr(text: str) -> Expr:
    """Return the expression that a text is; its free variables are declared in it: `free_var %x: int32; %x`.

    Raises:
        ParseError: if the text is not Relay; the message shows the place.

    """
    parts = _split(text)
    return cast("Expr", _parse("program", Source(SourceName("from_string"), parts.program), parts, IRModule(), {}))


class _Parts(NamedTuple):
    """The two sections of a text."""

    program: str
    heading: str
    metadata: str


def _split(text: str) -> _Parts:
    found = _METADATA.search(text)
    return _Parts(text, "", "") if found is None else _Parts(text[: found.start()], found[0], text[found.end() :])


def _parse(start: str, source: Source, parts: _Parts, known: IRModule, meta: MetaTable) -> object:
    try:
        builder = Builder(source, {**meta, **_metadata(parts)}, *_names(known))
        return drive(load_tables(Builder), start, source.text, builder)
    except TextError as error:
        shown = Source(source.name, source.text + parts.heading).error(error)
    raise shown


def _metadata(parts: _Parts) -> MetaTable:
    try:
        return read_metadata(parts.metadata) if parts.heading else {}
    except MetadataError as error:
        end = len(parts.program) + len(parts.heading)
        raise TextError(str(error), end - len(parts.heading.lstrip()), end) from None


def _names(mod: IRModule) -> tuple[Mapping[str, GlobalTypeVar], Mapping[str, Constructor], Mapping[str, GlobalVar]]:
    types = mod.type_definitions
    headers = {header.name_hint: header for header in types}
    constructors = {con.name_hint: con for data in types.values() for con in data.constructors}
    return headers, constructors, {f"@{name_text(gvar.name_hint, dots=True)}": gvar for gvar in mod.get_global_vars()}
