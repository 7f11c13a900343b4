"""Fresh variables: copies of expressions whose bound variables are new, for passes that put one in several places."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from apass.relay.adt import Clause, Match
from apass.relay.expr import Call, Expr, Let, Tuple, Var
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.ir.post_order import post_order
from apass.relay.ir.variables import bound_vars
from apass.relay.ref import RefCreate, RefRead, RefWrite

__all__ = ["copied", "renewed", "with_unique_binders"]

_NOTHING: Final[Mapping[Var, Expr]] = MappingProxyType({})


def renewed(expr: Expr, binds: Mapping[Var, Expr] = _NOTHING) -> Expr:
    """Return a copy of an expression in which every variable that it binds is a new one of the same name and type.

    What depends on none of them is not copied. Further, `binds` puts expressions in the places of other variables.
    """
    return _renewed(ExprMutator(), expr, binds)


def copied(expr: Expr, binds: Mapping[Var, Expr] = _NOTHING) -> Expr:
    """Return an expression as `renewed` does, no call and nothing that has to do with cells shared with the old one."""
    return _renewed(_Copier(), expr, binds)


def _renewed(mutator: ExprMutator, expr: Expr, binds: Mapping[Var, Expr]) -> Expr:
    for old in bound_vars(expr):
        mutator.memo_map[old] = _fresh(old)
    mutator.memo_map.update(binds.items())
    return mutator.visit(expr)


def _fresh(var: Var) -> Var:
    return Var(var.name_hint, var.type_annotation, span=var.span)


def with_unique_binders(expr: Expr) -> Expr:
    """Return an expression in which every variable is bound in one place; the same object if it is so already."""
    repeated = _rebound(expr)
    return _Renewer(repeated).visit(expr) if repeated else expr


def _rebound(expr: Expr) -> set[Expr]:
    """Return the functions, Lets and matches that bind a variable which something around or after them binds too."""
    known: set[Var] = set()
    repeated: set[Expr] = set()
    for node in reversed(list(post_order(expr))):
        for variables in _bound_by(node):
            if not known.isdisjoint(variables):
                repeated.add(node)
            known.update(variables)
    return repeated


def _bound_by(node: Expr) -> Iterator[tuple[Var, ...]]:
    """Return the variables that a node binds, by the place in which it does."""
    if isinstance(node, Function):
        yield node.params
    elif isinstance(node, Let):
        yield (node.var,)
    elif isinstance(node, Match):
        yield from (one.lhs.bound for one in node.clauses)


class _Copier(ExprMutator):
    """Makes anew what may be more than its value."""

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        return Call(call.op, call.args, call.attrs, call.type_args, span=call.span) if new is call else new

    def visit_ref_create(self, ref: RefCreate) -> Expr:
        new = super().visit_ref_create(ref)
        return RefCreate(ref.value, span=ref.span) if new is ref else new

    def visit_ref_read(self, ref: RefRead) -> Expr:
        new = super().visit_ref_read(ref)
        return RefRead(ref.ref, span=ref.span) if new is ref else new

    def visit_ref_write(self, ref: RefWrite) -> Expr:
        new = super().visit_ref_write(ref)
        return RefWrite(ref.ref, ref.value, span=ref.span) if new is ref else new


class _Renewer(ExprMutator, scopes_first=True):
    """Gives some binders variables of their own."""

    def __init__(self, repeated: set[Expr]) -> None:
        super().__init__()
        self._repeated = repeated

    def post_visit_let(self, let: Let) -> Expr:
        new = super().post_visit_let(let)
        if let not in self._repeated or not isinstance(new, Let):
            return new
        if isinstance(new.value, Function):  # which may call itself
            return renewed(new)
        own = _fresh(new.var)
        return Let(own, new.value, renewed(new.body, {new.var: own}), span=new.span)

    def visit_function(self, fn: Function) -> Expr:
        new = super().visit_function(fn)
        return renewed(new) if fn in self._repeated else new

    def visit_match(self, match: Match) -> Expr:
        new = super().visit_match(match)
        if match not in self._repeated or not isinstance(new, Match):
            return new
        return Match(new.data, [_renewed_clause(one) for one in new.clauses], new.complete, span=new.span)


def _renewed_clause(clause: Clause) -> Clause:
    new = renewed(Match(Tuple([]), [clause]))
    assert isinstance(new, Match), "an ExprMutator keeps the kinds of nodes"
    return new.clauses[0]
