"""`detect_feature`: the language features that a program uses."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final

from apass.relay.ir.adt import Constructor, Match
from apass.relay.ir.expr import (
    Call,
    Constant,
    Expr,
    GlobalVar,
    If,
    Let,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order

__all__ = ["Feature", "detect_feature", "has_shared_nodes"]


class Feature(IntEnum):
    """A feature of the Relay language, with TVM's names and numbers."""

    fVar = 0
    """A local variable."""
    fGlobalVar = 1
    """A reference to a function of the module."""
    fConstant = 2
    """A constant."""
    fTuple = 3
    """A tuple."""
    fTupleGetItem = 4
    """Access to a field of a tuple."""
    fFunction = 5
    """A function."""
    fOp = 6
    """An operator."""
    fCall = 7
    """A call."""
    fLet = 8
    """A binding of a local variable."""
    fIf = 9
    """A conditional."""
    fRefCreate = 10
    """Creation of a reference (a mutable cell)."""
    fRefRead = 11
    """A read of a reference."""
    fRefWrite = 12
    """A write to a reference."""
    fConstructor = 13
    """A constructor of an algebraic data type."""
    fMatch = 14
    """Pattern matching on a value."""
    fGraph = 15
    """An expression with several users, other than a variable, constant, operator or constructor."""
    fLetRec = 16
    """A recursive binding: its value refers to its own variable."""


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
    """Return the features that one or two expressions or modules use.

    The bodies of primitive functions are not searched.

    >>> x = Var("x")
    >>> sorted(detect_feature(Function([x], Tuple([x, x]))))
    [<Feature.fVar: 0>, <Feature.fTuple: 3>, <Feature.fFunction: 5>]
    """
    features: set[Feature] = set()
    for root in _roots(a, b):
        # A primitive function is a fused kernel: the node counts, its body does not.
        nodes = list(post_order(root, _is_primitive))
        features.update(_KINDS[type(node)] for node in nodes)
        if has_shared_nodes(root):
            features.add(Feature.fGraph)
        if _has_recursive_let(nodes):
            features.add(Feature.fLetRec)
    return features


def _has_recursive_let(nodes: Sequence[Expr]) -> bool:
    """Return whether a let uses its variable in its value; `nodes` is in post order."""
    numbers = {node: number for number, node in enumerate(nodes)}
    first_uses: dict[Expr, int] = {}
    for number, node in enumerate(nodes):
        for child in node.children:
            first_uses.setdefault(child, number)
    # All uses are in the value or in the body, and the value comes first.
    lets = (node for node in nodes if isinstance(node, Let))
    return any(let.value is let.var or first_uses[let.var] <= numbers[let.value] for let in lets)


def has_shared_nodes(expr: Expr) -> bool:
    """Return whether an expression other than an atom has several users.

    Atoms are variables, constants, operators and constructors.

    The bodies of primitive functions are not searched.

    >>> pair = Tuple([Var("x"), Var("x")])
    >>> has_shared_nodes(pair), has_shared_nodes(Tuple([pair, pair]))
    (False, True)
    """
    nodes = (node for node in post_order(expr, _is_primitive) if not _is_primitive(node))
    uses = Counter(child for node in nodes for child in node.children)
    return any(count > 1 and type(node) not in _ATOMS for node, count in uses.items())


def _roots(*programs: Expr | IRModule | None) -> Iterator[Expr]:
    for program in programs:
        if isinstance(program, IRModule):
            yield from program.functions.values()
        elif program is not None:
            yield program


def _is_primitive(node: Expr) -> bool:
    return isinstance(node, Function) and bool(node.attrs.get("Primitive"))
