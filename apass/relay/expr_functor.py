"""`ExprFunctor`, `ExprVisitor` and `ExprMutator`: how passes walk and rewrite expressions, to any depth.

A class defines `visit_call(self, call)` and the like for the kinds of node that it cares about. The result for each
node is kept in `memo_map`, so that a node that is shared is visited once.
"""

from collections.abc import Iterable
from operator import is_

from apass.relay.adt import Clause, Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.ref import RefCreate, RefRead, RefWrite
from apass.relay.visitors.expr_functor import DeepFunctor, ExprFunctor

__all__ = ["ExprFunctor", "ExprMutator", "ExprVisitor"]


class ExprVisitor(DeepFunctor[None]):
    """Goes over an expression and all below it, each node once; for passes that gather facts.

    >>> class CallCounter(ExprVisitor):
    ...     count = 0
    ...     def visit_call(self, call):
    ...         super().visit_call(call)
    ...         self.count += 1
    >>> x = Var("x")
    >>> counter = CallCounter()
    >>> counter.visit(Call(GlobalVar("f"), [Call(GlobalVar("f"), [x])]))
    >>> counter.count
    2
    """

    def _visit_below(self, expr: Expr) -> None:
        memo = self.memo_map
        for child in expr.children:
            if child not in memo:
                self.visit(child)

    def post_visit_let(self, let: Let) -> None:
        """Go over the variable."""
        self.visit(let.var)

    def visit_var(self, var: Var) -> None:
        """Do nothing: there is nothing below."""

    def visit_global_var(self, gvar: GlobalVar) -> None:
        """Do nothing: there is nothing below."""

    def visit_constant(self, const: Constant) -> None:
        """Do nothing: there is nothing below."""

    def visit_op(self, op: Op) -> None:
        """Do nothing: there is nothing below."""

    def visit_constructor(self, con: Constructor) -> None:
        """Do nothing: there is nothing below."""

    def visit_tuple(self, tup: Tuple) -> None:
        """Visit the fields."""
        self._visit_below(tup)

    def visit_tuple_getitem(self, op: TupleGetItem) -> None:
        """Visit the tuple."""
        self.visit(op.tuple_value)

    def visit_call(self, call: Call) -> None:
        """Visit what is called, then the arguments."""
        self._visit_below(call)

    def visit_if(self, ite: If) -> None:
        """Visit the condition and both branches."""
        self._visit_below(ite)

    def visit_function(self, fn: Function) -> None:
        """Visit the parameters, then the body."""
        self._visit_below(fn)

    def visit_match(self, match: Match) -> None:
        """Visit the value, then of each clause the variables and the result."""
        self._visit_below(match)

    def visit_ref_create(self, ref: RefCreate) -> None:
        """Visit the first value."""
        self.visit(ref.value)

    def visit_ref_read(self, ref: RefRead) -> None:
        """Visit the cell."""
        self.visit(ref.ref)

    def visit_ref_write(self, ref: RefWrite) -> None:
        """Visit the cell and the value."""
        self._visit_below(ref)


class ExprMutator(DeepFunctor[Expr]):
    """Makes a new expression of an old one; a node below which nothing changed stays the same object.

    >>> class AddToSubtract(ExprMutator):
    ...     def visit_call(self, call):
    ...         new = super().visit_call(call)
    ...         return Call(GlobalVar("sub"), new.args) if new.op.name_hint == "add" else new
    >>> x = Var("x")
    >>> AddToSubtract().visit(Call(GlobalVar("add"), [x, x])).op
    <relay.GlobalVar @sub>
    """

    def mutate_all(self, exprs: Iterable[Expr]) -> tuple[Expr, ...]:
        """Return the results for several expressions; the tuple that was given if each is its own."""
        given = tuple(exprs)
        known = tuple(map(self.memo_map.get, given))
        # An expression equals itself alone, so this compares objects.
        return given if known == given else tuple([self.visit(one) for one in given])

    def mutate_binder(self, var: Var) -> Var:
        """Return the result for a variable where it is bound.

        Raises:
            TypeError: if it is no variable.

        """
        new = self.visit(var)
        if not isinstance(new, Var):
            raise TypeError(
                f"{type(self).__name__} made {new!r} of {var!r} where it is bound; only a Var can stand there"
            )
        return new

    def visit_var(self, var: Var) -> Expr:
        """Return the variable."""
        return var

    def visit_global_var(self, gvar: GlobalVar) -> Expr:
        """Return the variable."""
        return gvar

    def visit_constant(self, const: Constant) -> Expr:
        """Return the constant."""
        return const

    def visit_op(self, op: Op) -> Expr:
        """Return the operator."""
        return op

    def visit_constructor(self, con: Constructor) -> Expr:
        """Return the constructor."""
        return con

    def visit_tuple(self, tup: Tuple) -> Expr:
        """Update the fields."""
        fields = self.mutate_all(tup.fields)
        return tup if fields is tup.fields else Tuple(fields, span=tup.span)

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        """Update the tuple."""
        value = self.visit(op.tuple_value)
        return op if value is op.tuple_value else TupleGetItem(value, op.index, span=op.span)

    def visit_call(self, call: Call) -> Expr:
        """Update what is called and the arguments."""
        callee, args = self.visit(call.op), self.mutate_all(call.args)
        if callee is call.op and args is call.args:
            return call
        return Call(callee, args, call.attrs, call.type_args, span=call.span)

    def post_visit_let(self, let: Let) -> Expr:
        """Update the variable, the value and the body."""
        var, value, body = self.mutate_binder(let.var), self.visit(let.value), self.visit(let.body)
        if var is let.var and value is let.value and body is let.body:
            return let
        return Let(var, value, body, span=let.span)

    def visit_if(self, ite: If) -> Expr:
        """Update the condition and the branches."""
        old = ite.children
        new = self.mutate_all(old)
        return ite if new is old else If(*new, span=ite.span)

    def visit_function(self, fn: Function) -> Expr:
        """Update the parameters and the body."""
        params, body = [self.mutate_binder(one) for one in fn.params], self.visit(fn.body)
        if body is fn.body and _same(params, fn.params):
            return fn
        return Function(params, body, fn.ret_type, fn.type_params, fn.attrs, span=fn.span)

    def visit_match(self, match: Match) -> Expr:
        """Update the value and the clauses."""
        data, clauses = self.visit(match.data), [self._mutate_clause(one) for one in match.clauses]
        if data is match.data and _same(clauses, match.clauses):
            return match
        return Match(data, clauses, match.complete, span=match.span)

    def visit_ref_create(self, ref: RefCreate) -> Expr:
        """Update the first value."""
        value = self.visit(ref.value)
        return ref if value is ref.value else RefCreate(value, span=ref.span)

    def visit_ref_read(self, ref: RefRead) -> Expr:
        """Update the cell."""
        cell = self.visit(ref.ref)
        return ref if cell is ref.ref else RefRead(cell, span=ref.span)

    def visit_ref_write(self, ref: RefWrite) -> Expr:
        """Update the cell and the value."""
        cell, value = self.visit(ref.ref), self.visit(ref.value)
        return ref if cell is ref.ref and value is ref.value else RefWrite(cell, value, span=ref.span)

    def _mutate_clause(self, clause: Clause) -> Clause:
        lhs, rhs = self._mutate_pattern(clause.lhs), self.visit(clause.rhs)
        return clause if lhs is clause.lhs and rhs is clause.rhs else Clause(lhs, rhs)

    def _mutate_pattern(self, pattern: Pattern) -> Pattern:
        if isinstance(pattern, PatternVar):
            var = self.mutate_binder(pattern.var)
            return pattern if var is pattern.var else PatternVar(var)
        if not isinstance(pattern, PatternConstructor | PatternTuple):
            return pattern
        inner = [self._mutate_pattern(one) for one in pattern.patterns]
        if _same(inner, pattern.patterns):
            return pattern
        return (
            PatternTuple(inner) if isinstance(pattern, PatternTuple) else PatternConstructor(pattern.constructor, inner)
        )


def _same(new: Iterable[object], old: Iterable[object]) -> bool:
    return all(map(is_, new, old))
