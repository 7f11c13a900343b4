"""`detect_feature`: which parts of the language a program uses."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Final

from apass.relay.adt import Constructor, Match
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.ir.variables import free_vars
from apass.relay.ref import RefCreate, RefRead, RefWrite

__all__ = ["Feature", "detect_feature"]


class Feature(IntEnum):
    """A part of the language, in TVM's names and numbers."""

    fVar = 0
    """A local variable."""
    fGlobalVar = 1
    """The name of a function of the module."""
    fConstant = 2
    """A constant."""
    fTuple = 3
    """A tuple."""
    fTupleGetItem = 4
    """A field of a tuple."""
    fFunction = 5
    """A function."""
    fOp = 6
    """An operator."""
    fCall = 7
    """A call."""
    fLet = 8
    """A binding of a variable."""
    fIf = 9
    """A choice."""
    fRefCreate = 10
    """A new mutable cell."""
    fRefRead = 11
    """What a cell holds."""
    fRefWrite = 12
    """A change of what a cell holds."""
    fConstructor = 13
    """A constructor of a data type."""
    fMatch = 14
    """A match of a value against patterns."""
    fGraph = 15
    """An expression, more than a name or a constant, that is used in several places."""
    fLetRec = 16
    """A binding whose value refers to its own variable."""


_KINDS: Final[Mapping[type[Expr], Feature]] = {
    Var: Feature.fVar,
    GlobalVar: Feature.fGlobalVar,
    Constant: Feature.fConstant,
    Tuple: Feature.fTuple,
    TupleGetItem: Feature.fTupleGetItem,
    Function: Feature.fFunction,
    Op: Feature.fOp,
    Call: Feature.fCall,
    Let: Feature.fLet,
    If: Feature.fIf,
    RefCreate: Feature.fRefCreate,
    RefRead: Feature.fRefRead,
    RefWrite: Feature.fRefWrite,
    Constructor: Feature.fConstructor,
    Match: Feature.fMatch,
}
_ATOMS: Final = frozenset({Var, GlobalVar, Constant, Op, Constructor})


def detect_feature(a: Expr | IRModule, b: Expr | IRModule | None = None) -> set[Feature]:
    """Return the features that an expression, a module, or one of each uses; not those within primitive functions.

    >>> x = Var("x")
    >>> sorted(detect_feature(Function([x], Tuple([x, x]))))
    [<Feature.fVar: 0>, <Feature.fTuple: 3>, <Feature.fFunction: 5>]
    """
    found: set[Feature] = set()
    for root in _roots(a, b):
        nodes = list(post_order(root, _is_primitive))
        found.update(_KINDS[type(node)] for node in nodes)
        uses = Counter(child for node in nodes if not _is_primitive(node) for child in node.children)
        if any(count > 1 and type(node) not in _ATOMS for node, count in uses.items()):
            found.add(Feature.fGraph)
        if any(isinstance(node, Let) and node.var in free_vars(node.value) for node in nodes):
            found.add(Feature.fLetRec)
    return found


def _roots(*programs: Expr | IRModule | None) -> Iterator[Expr]:
    for one in programs:
        roots: Iterable[Expr] = one.functions.values() if isinstance(one, IRModule) else [one] if one else []
        yield from roots


def _is_primitive(node: Expr) -> bool:
    return isinstance(node, Function) and bool(node.attrs.get("Primitive"))
