"""Text to modules with types, and to expressions, as TVM 0.8's `tvm.parser` has it."""

from apass.relay.expr import Expr
from apass.relay.ir.module import IRModule
from apass.relay.text.metadata import MetaTable
from apass.relay.text.parsing.reader import read_expr, read_module
from apass.relay.type_inference.infer import infer_module

__all__ = ["fromtext", "parse", "parse_expr"]


def parse(
    source: str,
    source_name: str = "from_string",
    init_module: IRModule | None = None,
    init_meta_table: MetaTable | None = None,
) -> IRModule:
    """Return the module that a text defines, with the types that `InferType` finds.

    The functions and data types of `init_module` may be used in it, and are in the result; `init_meta_table` has
    objects by type key that it refers to as `meta[key][index]`, besides those of its own metadata section.

    Raises:
        ParseError: if the text is not Relay; the message shows the place.
        TypeInferenceError: if the types in it do not fit; the message shows the places.

    >>> print(parse("def @main(%x: int32) { (%x, 1) }"))
    def @main(%x: int32) -> (int32, int32) {
      (%x, 1 /* ty=int32 */)
    }
    <BLANKLINE>
    """
    return infer_module(read_module(source, source_name, init_module, init_meta_table))


def fromtext(source: str, source_name: str = "from_string") -> IRModule:
    """Do as `parse`; the text must begin with the version: `#[version = "0.0.5"]`.

    Raises:
        ParseError: if the text is not Relay, or names no version.
        TypeInferenceError: if the types in it do not fit.

    """
    return infer_module(read_module(source, source_name, needs_version=True))


def parse_expr(source: str) -> Expr:
    """Return the expression that a text is, without types; its free variables are declared in it.

    Raises:
        ParseError: if the text is not Relay; the message shows the place.

    >>> print(parse_expr("free_var %x: int32; add(%x, 1)"))
    free_var %x: int32;
    add(%x, 1)

    """
    return read_expr(source)
