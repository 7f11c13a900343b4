"""Relay's text: `astext(mod)` is what `apass.relay.parser` reads back, `pretty_print(mod)` is for the eye."""

from collections.abc import Mapping
from typing import Final, Protocol, TypeAlias, runtime_checkable

from apass.relay.adt import Pattern, TypeData
from apass.relay.expr import Annotate, Expr, GlobalVar, set_text_format
from apass.relay.function import Function
from apass.relay.text.metadata import MetadataWriter
from apass.relay.text.printing.doc import NEWLINE, Doc, braced, render
from apass.relay.text.printing.exprs import ExprText
from apass.relay.ty import GlobalTypeVar, Type
from apass.relay.visitors.recursion import Walk, walk_deep

__all__ = ["VERSION_LINE", "Module", "Printable", "astext", "pretty_print"]

VERSION_LINE: Final = '#[version = "0.0.5"]'
"""The first line of every text: the version of the format."""

_OMITTED: Final = (
    "/* For debugging purposes the metadata section has been omitted.\n"
    " * If you would like to see the full metadata section you can set the \n"
    " * option to `True` when invoking `astext`. \n"
    " */"
)


@runtime_checkable
class Module(Protocol):
    """What the printer needs of a module; a protocol, because the module itself knows the printer."""

    @property
    def functions(self) -> Mapping[GlobalVar, Expr]:
        """The functions by global variable."""
        ...

    @property
    def type_definitions(self) -> Mapping[GlobalTypeVar, TypeData]:
        """The data types by their names."""
        ...


Printable: TypeAlias = Module | Expr | Type | TypeData | Pattern
"""What has a text."""


def astext(obj: Printable, show_meta_data: bool = True, annotate: Annotate | None = None) -> str:
    """Return the text of a module, an expression, a type or a pattern, with the version in its first line.

    Tensors, and what else has no form within the text, are in a metadata section at its end; without `show_meta_data`
    it is left out, and then the text cannot be read back. `annotate` returns what is printed after an expression in
    the place of its type.

    Raises:
        MetadataError: if an attribute is of a type that has no form in the metadata.
        TypeError: if `obj` is nothing that has a text.

    >>> from apass.relay.expr import Var
    >>> x = Var("x")
    >>> print(astext(Function([x], x)))
    #[version = "0.0.5"]
    fn (%x) {
      %x
    }
    """
    return f"{VERSION_LINE}\n{_text(obj, show_meta_data, annotate)}"


def pretty_print(obj: Printable) -> str:
    """Return the text without the version and without the metadata: what `str()` gives."""
    return _text(obj, False, None)


def _text(obj: Printable, show_meta_data: bool, annotate: Annotate | None) -> str:
    meta = MetadataWriter()
    body = render(walk_deep(_doc(obj, ExprText(meta, annotate, show_meta_data))))
    if not meta:
        return body
    return f"{body}\n#[metadata]\n{meta.section()}" if show_meta_data else f"{body}\n{_OMITTED}"


def _doc(obj: Printable, text: ExprText) -> Walk[Doc]:
    if isinstance(obj, Expr):
        return (yield text.whole(obj))
    if isinstance(obj, Type):
        return text.types(obj)
    if isinstance(obj, TypeData):
        return _type_definition(obj, text)
    if isinstance(obj, Pattern):
        return text.pattern(obj)
    if isinstance(obj, Module):
        return (yield _module(obj, text))
    raise TypeError(f"{obj!r} has no text: it is no module, expression, type or pattern of Relay")


def _module(mod: Module, text: ExprText) -> Walk[Doc]:
    parts: list[Doc] = [_type_definition(data, text) for data in mod.type_definitions.values()]
    for gvar, func in mod.functions.items():
        if not isinstance(func, Function):
            raise TypeError(f"@{gvar.name_hint} is no function, but {func!r}; it cannot be printed")
        parts.append((yield text.definition(f"def {text.global_name(gvar)}", func)))
    lines: list[Doc] = []
    for part in parts:
        lines += [NEWLINE, part, NEWLINE] if lines else [part, NEWLINE]
    return lines


def _type_definition(data: TypeData, text: ExprText) -> Doc:
    params = f"[{', '.join(text.types.bind(data.type_vars))}]" if data.type_vars else ""
    lines: list[Doc] = []
    for con in data.constructors:
        inputs = f"({', '.join(map(text.types, con.inputs))})" if con.inputs else ""
        lines += [*([NEWLINE] if lines else []), f"{con.name_hint}{inputs},"]
    text.types.release(data.type_vars)
    return [f"type {data.header.name_hint}{params} ", braced(lines)]


set_text_format(pretty_print, astext)
