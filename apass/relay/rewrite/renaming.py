"""Copies of expressions with fresh variables, for passes that duplicate code."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from apass.relay.ir.adt import Clause, Match
from apass.relay.ir.expr import Call, Expr, Let, RefCreate, RefRead, RefWrite, Tuple, Var
from apass.relay.ir.function import Function
from apass.relay.ir.post_order import post_order
from apass.relay.ir.variables import bound_vars
from apass.relay.visitors.expr_functor import ExprMutator

__all__ = ["copied", "renewed", "with_unique_binders"]

_NO_BINDS: Final[Mapping[Var, Expr]] = MappingProxyType({})


def renewed(expr: Expr, binds: Mapping[Var, Expr] = _NO_BINDS) -> Expr:
    """Return a copy of an expression with a fresh variable for each that it binds.

    Fresh variables have the same name and type. Parts that use none of them are shared with the original. `binds`
    gives replacements for other variables.
    """
    return _renewed(ExprMutator(), expr, binds)


def copied(expr: Expr, binds: Mapping[Var, Expr] = _NO_BINDS) -> Expr:
    """Return `renewed(expr, binds)`, with all calls and cell operations copied, too.

    None of these is shared with the original, so that each copy has its own effects.
    """
    return _renewed(_Copier(), expr, binds)


def _renewed(mutator: ExprMutator, expr: Expr, binds: Mapping[Var, Expr]) -> Expr:
    for old in bound_vars(expr):
        mutator.memo_map[old] = _fresh(old)
    mutator.memo_map.update(binds.items())
    return mutator.visit(expr)


def _fresh(var: Var) -> Var:
    return Var(var.name_hint, var.type_annotation, span=var.span)


def with_unique_binders(expr: Expr) -> Expr:
    """Return an expression that binds every variable once; itself if it does."""
    repeated = _rebound(expr)
    return _Renewer(repeated).visit(expr) if repeated else expr


def _rebound(expr: Expr) -> set[Expr]:
    """Return the nodes that bind a variable again.

    These are functions, Lets and matches. Another node around or after them binds the variable as well.
    """
    seen: set[Var] = set()
    repeated: set[Expr] = set()
    # Users first, so that the outermost binding of a variable is the one that stays.
    for node in reversed(list(post_order(expr))):
        for variables in _bound_by(node):
            if not seen.isdisjoint(variables):
                repeated.add(node)
            seen.update(variables)
    return repeated


def _bound_by(node: Expr) -> Iterator[tuple[Var, ...]]:
    """Iterate over the groups of variables that a node binds: one a clause, else one."""
    if isinstance(node, Function):
        yield node.params
    elif isinstance(node, Let):
        yield (node.var,)
    elif isinstance(node, Match):
        yield from (clause.lhs.bound for clause in node.clauses)


class _Copier(ExprMutator):
    """Copies calls and cell operations as well, as they may have effects."""

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
    """Gives fresh variables to the binders in `repeated`."""

    def __init__(self, repeated: set[Expr]) -> None:
        super().__init__()
        self._repeated = repeated

    def post_visit_let(self, let: Let) -> Expr:
        new = super().post_visit_let(let)
        if let not in self._repeated or not isinstance(new, Let):
            return new
        if isinstance(new.value, Function):  # a recursive function uses the variable in its value
            return renewed(new)
        fresh = _fresh(new.var)
        return Let(fresh, new.value, renewed(new.body, {new.var: fresh}), span=new.span)

    def visit_function(self, fn: Function) -> Expr:
        new = super().visit_function(fn)
        return renewed(new) if fn in self._repeated else new

    def visit_match(self, match: Match) -> Expr:
        new = super().visit_match(match)
        if match not in self._repeated or not isinstance(new, Match):
            return new
        return Match(new.data, [_renewed_clause(clause) for clause in new.clauses], new.complete, span=new.span)


def _renewed_clause(clause: Clause) -> Clause:
    new = renewed(Match(Tuple([]), [clause]))
    assert isinstance(new, Match), "an ExprMutator returns a match for a match"
    return new.clauses[0]
