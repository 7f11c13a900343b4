"""`astext` returns text that the parser accepts; `pretty_print` is for reading."""

from collections.abc import Iterable
from typing import Final, TypeAlias

from apass.relay.ir.adt import Pattern, TypeData
from apass.relay.ir.expr import Annotate, Expr
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.text_format import set_text_format
from apass.relay.ir.ty import Type
from apass.relay.text.metadata import MetadataWriter
from apass.relay.text.printing.doc import NEWLINE, Doc, braced, render
from apass.relay.text.printing.exprs import ExprText
from apass.relay.visitors.recursion import Walk, walk_deep

__all__ = ["VERSION_LINE", "Printable", "astext", "pretty_print", "text_by_function", "text_parts"]

VERSION_LINE: Final = '#[version = "0.0.5"]'
"""The first line of a text: the version of the format."""

_OMITTED: Final = (
    "/* For debugging purposes the metadata section has been omitted.\n"
    " * If you would like to see the full metadata section you can set the \n"
    " * option to `True` when invoking `astext`. \n"
    " */"
)


Printable: TypeAlias = IRModule | Expr | Type | TypeData | Pattern
"""Objects that have a text."""


def astext(obj: Printable, show_meta_data: bool = True, annotate: Annotate | None = None) -> str:
    """Return the text of a module, expression, type or pattern, with a version line.

    Parameters:
        obj: the object to print.
        show_meta_data: whether to append the metadata section, which contains tensors and other objects without an
            inline text. The parser rejects a text whose metadata is missing.
        annotate: returns the text to print after an expression, instead of its type.

    Raises:
        MetadataError: if the metadata cannot represent the type of an attribute.
        TypeError: if `obj` has no text.

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
    """Return the text without version and metadata, as `str()` does."""
    return _text(obj, False, None)


def text_parts(mod: IRModule, names: Iterable[str]) -> tuple[str, dict[str, str]]:
    """Return the text of version and data types, and of each named function.

    `astext` numbers graph variables, variables of equal names and references to the metadata over the whole module.
    Here the numbers start anew in each function, so the text of a function does not depend on other functions.
    """
    types, functions, _ = _parts(mod, names)
    return f"{VERSION_LINE}\n" + "\n".join(types), functions


def text_by_function(mod: IRModule) -> str:
    """Return the text of a module, numbered anew in each function, without metadata."""
    types, functions, uses_metadata = _parts(mod, [gvar.name_hint for gvar in mod.get_global_vars()])
    body = "\n".join([*types, *functions.values()])
    return f"{VERSION_LINE}\n{body}" + (f"\n{_OMITTED}" if uses_metadata else "")


def _parts(mod: IRModule, names: Iterable[str]) -> tuple[list[str], dict[str, str], bool]:
    """Return the texts of the data types and of the named functions.

    The third item is whether the functions refer to the metadata.
    """
    meta = MetadataWriter()
    types = [_body(IRModule({}, {data.header: data}), meta) for data in mod.type_definitions.values()]
    uses_metadata = bool(meta)
    functions: dict[str, str] = {}
    for name in names:
        meta = MetadataWriter()
        functions[name] = _body(IRModule({name: mod[name]}), meta)
        uses_metadata = uses_metadata or bool(meta)
    return types, functions, uses_metadata


def _text(obj: Printable, show_meta_data: bool, annotate: Annotate | None) -> str:
    meta = MetadataWriter()
    body = _body(obj, meta, show_meta_data, annotate)
    if not meta:
        return body
    return f"{body}\n#[metadata]\n{meta.section()}" if show_meta_data else f"{body}\n{_OMITTED}"


def _body(obj: Printable, meta: MetadataWriter, show_meta_data: bool = False, annotate: Annotate | None = None) -> str:
    """Return the text of an object without the metadata, which `meta` collects."""
    return render(walk_deep(_doc(obj, ExprText(meta, annotate, show_meta_data))))


def _doc(obj: Printable, text: ExprText) -> Walk[Doc]:
    if isinstance(obj, Expr):
        return (yield text.whole(obj))
    if isinstance(obj, Type):
        return text.types(obj)
    if isinstance(obj, TypeData):
        return _type_definition(obj, text)
    if isinstance(obj, Pattern):
        return text.pattern(obj)
    if isinstance(obj, IRModule):
        return (yield _module(obj, text))
    raise TypeError(f"cannot print {obj!r}: expected a Relay module, expression, type or pattern")


def _module(mod: IRModule, text: ExprText) -> Walk[Doc]:
    parts: list[Doc] = [_type_definition(data, text) for data in mod.type_definitions.values()]
    for gvar, func in mod.functions.items():
        if not isinstance(func, Function):
            raise TypeError(f"cannot print @{gvar.name_hint}: expected a function, got {func!r}")
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
