"""The expressions of Relay, and what makes them, under the names that TVM has in `relay.expr`."""

from apass.relay.ir.expr import (
    OP_ATTRS,
    OPS,
    Annotate,
    Call,
    Compute,
    Constant,
    Expr,
    GlobalVar,
    If,
    Let,
    Op,
    Relation,
    Tuple,
    TupleGetItem,
    Var,
    set_field,
    set_text_format,
)
from apass.relay.make import const, var
from apass.relay.ref import RefCreate, RefRead, RefWrite
from apass.relay.tuple_wrapper import TupleWrapper

__all__ = [
    "OPS",
    "OP_ATTRS",
    "Annotate",
    "Call",
    "Compute",
    "Constant",
    "Expr",
    "GlobalVar",
    "If",
    "Let",
    "Op",
    "RefCreate",
    "RefRead",
    "RefWrite",
    "Relation",
    "RelayExpr",
    "Tuple",
    "TupleGetItem",
    "TupleWrapper",
    "Var",
    "const",
    "set_field",
    "set_text_format",
    "var",
]

RelayExpr = Expr
"""The name of `Expr` in `tvm.ir`."""
