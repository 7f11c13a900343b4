"""Parser of Relay's text format, with the interface of TVM 0.8's `tvm.parser`."""

from apass.relay.ir.expr import Expr
from apass.relay.ir.module import IRModule
from apass.relay.text.limits import TextLimits
from apass.relay.text.metadata import MetaTable
from apass.relay.text.parsing.reader import read_expr, read_module
from apass.relay.type_inference.infer import infer_module

__all__ = ["TextLimits", "fromtext", "parse", "parse_expr", "read_module"]


def parse(
    source: str,
    source_name: str = "from_string",
    init_module: IRModule | None = None,
    init_meta_table: MetaTable | None = None,
) -> IRModule:
    """Parse a module and infer its types.

    Parameters:
        source: the text.
        source_name: the name of the source in spans and messages.
        init_module: functions and data types that the text may use. The result contains them.
        init_meta_table: objects by type key, which the text refers to as `meta[key][index]`, in addition to the
            objects of its own metadata section.

    Raises:
        ParseError: if the text is not valid Relay. The message shows the location.
        TypeInferenceError: if the program is ill-typed. The message shows the locations.

    >>> print(parse("def @main(%x: int32) { (%x, 1) }"))
    def @main(%x: int32) -> (int32, int32) {
      (%x, 1 /* ty=int32 */)
    }
    <BLANKLINE>
    """
    return infer_module(read_module(source, source_name, init_module, init_meta_table))


def fromtext(source: str, source_name: str = "from_string") -> IRModule:
    """Parse a module whose text starts with the version `#[version = "0.0.5"]`.

    Raises:
        ParseError: if the text is not valid Relay, or has no version.
        TypeInferenceError: if the program is ill-typed.

    """
    return infer_module(read_module(source, source_name, needs_version=True))


def parse_expr(source: str) -> Expr:
    """Parse an expression without inferring types.

    The text declares its free variables with `free_var`.

    Raises:
        ParseError: if the text is not valid Relay. The message shows the location.

    >>> print(parse_expr("free_var %x: int32; add(%x, 1)"))
    free_var %x: int32;
    add(%x, 1)

    """
    return read_expr(source)
