"""The variables of an expression: free, bound and all, of values and of types."""

from collections.abc import Iterable, Iterator

from apass.relay.adt import Constructor, Match
from apass.relay.expr import Call, Expr, Let, Var
from apass.relay.function import Function
from apass.relay.ir.post_order import post_order
from apass.relay.ty import FuncType, RefType, TupleType, Type, TypeCall, TypeRelation, TypeVar

__all__ = ["all_type_vars", "all_vars", "bound_type_vars", "bound_vars", "free_type_vars", "free_vars"]


def all_vars(expr: Expr) -> list[Var]:
    """Return every variable, in the order in which the walk meets it."""
    return [node for node in post_order(expr) if isinstance(node, Var)]


def bound_vars(expr: Expr) -> list[Var]:
    """Return the variables that a function, a Let or a pattern within binds, in the order in which the walk meets them.

    >>> x, y = Var("x"), Var("y")
    >>> bound_vars(Function([x], Let(y, x, y)))
    [<relay.Var %x>, <relay.Var %y>]
    """
    nodes = list(post_order(expr))
    bound = {var for node in nodes for var in _binders(node)}
    return [node for node in nodes if isinstance(node, Var) and node in bound]


def free_vars(expr: Expr) -> list[Var]:
    """Return the variables that nothing within binds, in the order of their first use.

    >>> x, y = Var("x"), Var("y")
    >>> free_vars(Function([x], Call(x, [y])))
    [<relay.Var %y>]
    """
    bound = set(bound_vars(expr))
    return [var for var in all_vars(expr) if var not in bound]


def _binders(node: Expr) -> tuple[Var, ...]:
    if isinstance(node, Function):
        return node.params
    if isinstance(node, Let):
        return (node.var,)
    if isinstance(node, Match):
        return tuple(var for clause in node.clauses for var in clause.lhs.bound)
    return ()


def all_type_vars(expr: Expr | Type, mod: object = None) -> list[TypeVar]:
    """Return every type variable, in the order in which the walk meets it; `mod`, which TVM takes, has no say."""
    types = [expr] if isinstance(expr, Type) else (ty for node in post_order(expr) for ty in _types_of(node))
    return list(dict.fromkeys(one for ty in types for one in _type_nodes(ty) if isinstance(one, TypeVar)))


def bound_type_vars(expr: Expr | Type, mod: object = None) -> list[TypeVar]:
    """Return the type parameters of the functions and function types within; `mod`, which TVM takes, has no say."""
    nodes: Iterable[Expr] = () if isinstance(expr, Type) else post_order(expr)
    own: list[TypeVar] = []
    types = [expr] if isinstance(expr, Type) else []
    for node in nodes:
        own += node.type_params if isinstance(node, Function) else ()
        types += _types_of(node)
    own += [var for ty in types for one in _type_nodes(ty) if isinstance(one, FuncType) for var in one.type_params]
    return list(dict.fromkeys(own))


def free_type_vars(expr: Expr | Type, mod: object = None) -> list[TypeVar]:
    """Return the type variables that nothing within binds; `mod`, which TVM takes, has no say."""
    nodes = [] if isinstance(expr, Type) else list(post_order(expr))
    types = [expr] if isinstance(expr, Type) else [ty for node in nodes for ty in _types_of(node)]
    bound = {var for node in nodes if isinstance(node, Function) for var in node.type_params}
    return [var for var in dict.fromkeys(one for ty in types for one in _free_in(ty)) if var not in bound]


def _types_of(node: Expr) -> list[Type]:
    """Return the types that are written in a node, not those that were inferred."""
    if isinstance(node, Var):
        return [] if node.type_annotation is None else [node.type_annotation]
    if isinstance(node, Function):
        return [*node.type_params, *([] if node.ret_type is None else [node.ret_type])]
    if isinstance(node, Call):
        return list(node.type_args)
    return list(node.inputs) if isinstance(node, Constructor) else []


def _free_in(ty: Type) -> Iterator[TypeVar]:
    """Go over the variables that a type does not bind where they stand; the same one may be bound elsewhere."""
    work: list[tuple[Type, frozenset[TypeVar]]] = [(ty, frozenset())]
    while work:
        one, bound = work.pop()
        if isinstance(one, TypeVar) and one not in bound:
            yield one
        if isinstance(one, FuncType) and one.type_params:
            bound |= set(one.type_params)
        work += [(part, bound) for part in reversed(_types_below(one))]


def _type_nodes(ty: Type) -> Iterator[Type]:
    """Go over a type and all below it, to any depth."""
    work = [ty]
    while work:
        one = work.pop()
        yield one
        work += reversed(_types_below(one))


def _types_below(ty: Type) -> tuple[Type, ...]:
    if isinstance(ty, TupleType):
        return ty.fields
    if isinstance(ty, RefType):
        return (ty.value,)
    if isinstance(ty, TypeCall):
        return (ty.func, *ty.args)
    if isinstance(ty, TypeRelation):
        return ty.args
    if isinstance(ty, FuncType):
        return (*ty.type_params, *ty.arg_types, ty.ret_type, *ty.type_constraints)
    return ()
