"""Parsing of texts to modules and expressions, without type inference."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from apass.relay.ir.adt import Constructor
from apass.relay.ir.base import TextName
from apass.relay.ir.expr import Expr, GlobalVar
from apass.relay.ir.module import IRModule
from apass.relay.ir.ty import GlobalTypeVar
from apass.relay.text.limits import DEFAULT_LIMITS, TextLimits
from apass.relay.text.literals import name_text
from apass.relay.text.metadata import MetadataError, MetaTable, read_metadata
from apass.relay.text.parsing.builder import Builder, Definitions
from apass.relay.text.parsing.lalr import drive
from apass.relay.text.parsing.source import Source, TextError
from apass.relay.text.parsing.tables import load_tables

__all__ = ["read_expr", "read_module", "read_module_bytes"]

_BYTES: Final = "from_bytes"

_METADATA: Final = re.compile(r"^[ \t]*#\[\s*metadata\s*\]", re.MULTILINE)


def read_module(
    text: str,
    source_name: str = "from_string",
    init_module: IRModule | None = None,
    init_meta_table: MetaTable | None = None,
    *,
    needs_version: bool = False,
    limits: TextLimits = DEFAULT_LIMITS,
) -> IRModule:
    """Return the module that a text defines, with annotated types only.

    Parameters:
        text: the text.
        source_name: the name of the source in spans and messages.
        init_module: functions and data types that the text may use. The result contains them.
        init_meta_table: objects by type key, which the text refers to as `meta[key][index]`, in addition to the
            objects of its own metadata section.
        needs_version: whether the text must start with the version of the format.
        limits: what a small text may expand to.

    Raises:
        ParseError: if the text is not valid Relay, or a required version is missing. The message shows the location.

    >>> print(read_module("def @main(%x: int32) { (%x, 1) }"))
    def @main(%x: int32) {
      (%x, 1)
    }
    <BLANKLINE>
    """
    result = IRModule() if init_module is None else init_module.copy()
    parts = _split(text)
    source = Source(TextName(source_name), parts.program)
    definitions = cast("Definitions", _parse("module", source, parts, result, init_meta_table or {}, limits))
    if needs_version and definitions.version is None:
        advice = 'start the text with `#[version = "0.0.5"]`'
        raise source.error(TextError("the text has no version", 0, 0, advice))
    result.update(IRModule(definitions.functions, definitions.types))
    result.source_map[source_name] = parts.program
    return result


def read_module_bytes(data: bytes) -> IRModule:
    """Return the module that a text in UTF-8 defines.

    Raises:
        ParseError: if the text is not valid UTF-8 or not valid Relay. The message shows the location.

    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        source = Source(TextName(_BYTES), data[: error.end].decode(errors="replace"))
        message = f"the byte {data[error.start]:#04x} at offset {error.start} is not valid UTF-8"
        offset = len(data[: error.start].decode(errors="replace"))
        parse_error = source.error(TextError(message, offset, offset + 1))
    else:
        # Not the name of `relay.parse`: functions from bytes may become part of a module that was parsed.
        return read_module(text, _BYTES)
    raise parse_error


def read_expr(text: str) -> Expr:
    """Return the expression of a text.

    The text declares its free variables: `free_var %x: int32; %x`.

    Raises:
        ParseError: if the text is not valid Relay. The message shows the location.

    """
    parts = _split(text)
    source = Source(TextName("from_string"), parts.program)
    return cast("Expr", _parse("program", source, parts, IRModule(), {}, DEFAULT_LIMITS))


class _Parts(NamedTuple):
    """The program and the metadata section of a text."""

    program: str
    heading: str
    metadata: str


def _split(text: str) -> _Parts:
    match = _METADATA.search(text)
    return _Parts(text, "", "") if match is None else _Parts(text[: match.start()], match[0], text[match.end() :])


def _parse(start: str, source: Source, parts: _Parts, mod: IRModule, meta: MetaTable, limits: TextLimits) -> object:
    try:
        _check_encoding(source.text)
        builder = Builder(source, {**meta, **_metadata(parts, limits)}, *_names(mod), limits)
        return drive(load_tables(Builder), start, source.text, builder)
    except TextError as error:
        parse_error = Source(source.name, source.text + parts.heading).error(error)
    raise parse_error


def _check_encoding(text: str) -> None:
    """Raise TextError if a text has a character that no encoding of Unicode has."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = f"the character U+{ord(text[error.start]):04X} is not allowed"
        raise TextError(message, error.start, error.end) from None


def _metadata(parts: _Parts, limits: TextLimits) -> MetaTable:
    try:
        return read_metadata(parts.metadata, limits) if parts.heading else {}
    except MetadataError as error:
        end = len(parts.program) + len(parts.heading)
        raise TextError(str(error), end - len(parts.heading.lstrip()), end) from None


def _names(mod: IRModule) -> tuple[Mapping[str, GlobalTypeVar], Mapping[str, Constructor], Mapping[str, GlobalVar]]:
    types = mod.type_definitions
    headers = {header.name_hint: header for header in types}
    constructors = {con.name_hint: con for data in types.values() for con in data.constructors}
    return headers, constructors, {f"@{name_text(gvar.name_hint, dots=True)}": gvar for gvar in mod.get_global_vars()}
