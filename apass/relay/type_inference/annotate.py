"""`annotate`: rebuilds expressions with their inferred types."""

from collections.abc import Callable, Mapping, Sequence
from operator import eq, is_

from apass.relay.ir.adt import Clause, Match
from apass.relay.ir.expr import Call, Expr, If, Let, Op, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var
from apass.relay.ir.function import Function
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import FuncType, IncompleteType, Type
from apass.relay.type_inference.errors import TypeErrors
from apass.relay.type_inference.inferencer import Inferencer
from apass.relay.visitors.patterns import rewrite_pattern

__all__ = ["annotate"]


def annotate(roots: Mapping[str, Expr], inferencer: Inferencer, errors: TypeErrors) -> Mapping[Expr, Expr]:
    """Return the typed expression for each visited expression.

    Expressions that already have the inferred types stay the same objects. Each expression without an inferred type is
    reported. If there are any errors, the mapping is empty.
    """
    resolve, types = inferencer.solver.resolve, inferencer.types
    for node, ty in types.items():
        types[node] = resolve(ty)
    unknown = _unknown(inferencer)
    for name, root in roots.items() if unknown else ():
        errors.function = name or None
        for node in post_order(root):
            if node in unknown:
                unknown.discard(node)
                errors.add(node, "cannot infer the type of this expression; add a type annotation")
    return {} if errors or inferencer.solver.any_failed else _Annotator(inferencer).annotate()


def _unknown(inferencer: Inferencer) -> set[Expr]:
    """Return an expression for each unknown type that does not depend on others."""
    solver = inferencer.solver
    unknown: dict[IncompleteType, Expr] = {}
    for node, ty in inferencer.types.items():
        if isinstance(ty, IncompleteType) and not solver.has_failed(ty):
            unknown.setdefault(ty, node)
    dependent = {
        result
        for constraint in (solver.waiting() if unknown else ())
        if any(solver.unknowns(ty) for ty in constraint.types[:-1])
        for result in solver.unknowns(constraint.types[-1])
    }
    # If all depend on each other, report all.
    return {unknown[ty] for ty in [ty for ty in unknown if ty not in dependent] or unknown}


class _Annotator:
    """Builder of the typed expressions, in post-order."""

    def __init__(self, inferencer: Inferencer) -> None:
        self._new: dict[Expr, Expr] = {expr: expr for expr in inferencer.trusted}
        self._types = inferencer.types
        self._solver = inferencer.solver
        self._type_args = inferencer.calls.type_args
        self._makers: Mapping[type[Expr], Callable[..., Expr]] = {
            Var: self._var,
            Tuple: self._tuple,
            TupleGetItem: self._tuple_getitem,
            Call: self._call,
            RefCreate: self._ref_create,
            RefRead: self._ref_read,
            RefWrite: self._ref_write,
            Let: self._let,
            If: self._if,
            Function: self._function,
            Match: self._match,
        }

    def annotate(self) -> Mapping[Expr, Expr]:
        new, makers = self._new, self._makers
        for node, ty in self._types.items():
            if node not in new:
                maker = makers.get(type(node))
                new[node] = node if maker is None else maker(node, ty)
        return new

    def _has(self, node: Expr, ty: Type, *children: Expr) -> bool:
        """Return whether an expression and its children already have their types."""
        current = node.checked_type_
        return current is not None and current == ty and all(self._new[child] is child for child in children)

    def _all(self, exprs: Sequence[Expr]) -> list[Expr]:
        new = self._new
        return [new[expr] for expr in exprs]

    def _var(self, var: Var, ty: Type) -> Expr:
        return self._variable(var)

    def _variable(self, var: Var) -> Var:
        """Return a variable annotated with its type."""
        existing = self._new.get(var)
        if isinstance(existing, Var):
            return existing
        ty = self._types[var]
        is_annotated = var.type_annotation is not None and self._solver.is_complete(var.type_annotation)
        result = var if is_annotated or ty is var.type_annotation else Var(var.name_hint, ty, span=var.span)
        self._new[var] = result
        return result

    def _tuple(self, tup: Tuple, ty: Type) -> Expr:
        if self._has(tup, ty, *tup.fields):
            return tup
        return Tuple(self._all(tup.fields), span=tup.span, checked_type_=ty)

    def _tuple_getitem(self, item: TupleGetItem, ty: Type) -> Expr:
        if self._has(item, ty, item.tuple_value):
            return item
        return TupleGetItem(self._new[item.tuple_value], item.index, span=item.span, checked_type_=ty)

    def _call(self, call: Call, ty: Type) -> Expr:
        args, op = self._all(call.args), call.op
        if isinstance(op, Op):
            types = self._types
            type_args: Sequence[Type] = [types[arg] for arg in call.args]
        else:
            op = self._new[op]
            type_args = [self._solver.resolve(ty) for ty in self._type_args[call]]
        if self._has(call, ty, *call.args) and op is call.op and _same_types(call.type_args, type_args):
            return call
        return Call(op, args, call.attrs, type_args, span=call.span, checked_type_=ty)

    def _ref_create(self, ref: RefCreate, ty: Type) -> Expr:
        if self._has(ref, ty, ref.value):
            return ref
        return RefCreate(self._new[ref.value], span=ref.span, checked_type_=ty)

    def _ref_read(self, ref: RefRead, ty: Type) -> Expr:
        return ref if self._has(ref, ty, ref.ref) else RefRead(self._new[ref.ref], span=ref.span, checked_type_=ty)

    def _ref_write(self, ref: RefWrite, ty: Type) -> Expr:
        if self._has(ref, ty, ref.ref, ref.value):
            return ref
        return RefWrite(self._new[ref.ref], self._new[ref.value], span=ref.span, checked_type_=ty)

    def _let(self, let: Let, ty: Type) -> Expr:
        var = self._variable(let.var)
        if self._has(let, ty, let.var, let.value, let.body):
            return let
        return Let(var, self._new[let.value], self._new[let.body], span=let.span, checked_type_=ty)

    def _if(self, ite: If, ty: Type) -> Expr:
        if self._has(ite, ty, *ite.children):
            return ite
        cond, true_branch, false_branch = self._all(ite.children)
        return If(cond, true_branch, false_branch, span=ite.span, checked_type_=ty)

    def _function(self, func: Function, ty: Type) -> Expr:
        params = [self._variable(param) for param in func.params]
        ret_type = func.ret_type
        if isinstance(ty, FuncType) and (ret_type is None or not self._solver.is_complete(ret_type)):
            ret_type = ty.ret_type
        if ret_type is func.ret_type and self._has(func, ty, *func.params, func.body):
            return func
        body = self._new[func.body]
        return Function(params, body, ret_type, func.type_params, func.attrs, span=func.span, checked_type_=ty)

    def _match(self, match: Match, ty: Type) -> Expr:
        clauses = [self._clause(clause) for clause in match.clauses]
        if all(map(is_, clauses, match.clauses)) and self._has(match, ty, match.data):
            return match
        return Match(self._new[match.data], clauses, match.complete, span=match.span, checked_type_=ty)

    def _clause(self, clause: Clause) -> Clause:
        lhs, rhs = rewrite_pattern(clause.lhs, self._variable), self._new[clause.rhs]
        return clause if lhs is clause.lhs and rhs is clause.rhs else Clause(lhs, rhs)


def _same_types(types: Sequence[Type], others: Sequence[Type]) -> bool:
    return len(types) == len(others) and all(map(eq, types, others))
