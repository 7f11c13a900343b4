"""Expressions and mutators for tests of visitors."""

from apass.relay.adt import Clause, Constructor, Match, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.ir.expr import RefCreate, RefRead, RefWrite
from apass.relay.ty import GlobalTypeVar

__all__ = [
    "CONS",
    "F",
    "G",
    "Identity",
    "Rename",
    "RenameVars",
    "SuperMutator",
    "X",
    "Y",
    "chain",
    "every_kind",
    "lets",
]

F, G = GlobalVar("f"), GlobalVar("g")
X, Y = Var("x"), Var("y")
CONS = Constructor("Cons", [], GlobalTypeVar("List"))


def chain(length: int) -> Expr:
    """Return calls of `f` nested to the given depth."""
    expr: Expr = X
    for _ in range(length):
        expr = Call(F, (expr,))
    return expr


def lets(length: int) -> Expr:
    """Return nested Lets, each bound to a call on the previous variable."""
    names = [Var(f"v{i}") for i in range(length)]
    expr: Expr = names[-1]
    for var, before in zip(reversed(names), [*reversed(names[:-1]), X], strict=True):
        expr = Let(var, Call(F, (before,)), expr)
    return expr


def every_kind() -> Expr:
    """Return an expression with a node of each kind."""
    bound, head, tail = Var("bound"), Var("head"), Var("tail")
    clauses = [
        Clause(PatternConstructor(CONS, [PatternVar(head), PatternTuple([PatternVar(tail), PatternWildcard()])]), tail),
        Clause(PatternWildcard(), Call(CONS, [head])),
    ]
    cell = RefCreate(X)
    written = RefWrite(cell, RefRead(cell))
    op = Op(name="test.functor")
    value = TupleGetItem(Tuple([Call(op, [Constant(1), X]), written]), 0)
    return Function([X], Let(bound, value, If(bound, Call(F, [bound]), Match(X, clauses))))


class Rename(ExprMutator):
    """Replaces `f` by `g`."""

    def visit_global_var(self, gvar: GlobalVar) -> Expr:
        return G if gvar is F else gvar


class RenameVars(ExprMutator):
    """Replaces every variable by a new one."""

    def visit_var(self, var: Var) -> Expr:
        return Var(f"new_{var.name_hint}")


class Identity(ExprMutator):
    """Changes nothing."""


class SuperMutator(ExprMutator):
    """Changes nothing, with an overridden method."""

    def visit_call(self, call: Call) -> Expr:
        return super().visit_call(call)
