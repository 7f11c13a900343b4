"""The free, bound and all variables and type variables of an expression."""

from collections.abc import Iterable, Iterator

from apass.relay.ir.adt import Constructor, Match
from apass.relay.ir.expr import Call, Expr, Let, Var
from apass.relay.ir.function import Function
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import FuncType, RefType, TupleType, Type, TypeCall, TypeRelation, TypeVar

__all__ = ["all_type_vars", "all_vars", "bound_type_vars", "bound_vars", "free_type_vars", "free_vars"]


def all_vars(expr: Expr) -> list[Var]:
    """Return all variables in post-order."""
    return [node for node in post_order(expr) if isinstance(node, Var)]


def bound_vars(expr: Expr) -> list[Var]:
    """Return the variables that functions, Lets and patterns bind, in post-order.

    >>> x, y = Var("x"), Var("y")
    >>> bound_vars(Function([x], Let(y, x, y)))
    [<relay.Var %x>, <relay.Var %y>]
    """
    nodes = list(post_order(expr))
    bound = {var for node in nodes for var in _binders(node)}
    return [node for node in nodes if isinstance(node, Var) and node in bound]


def free_vars(expr: Expr) -> list[Var]:
    """Return the variables that are not bound in `expr`, in order of first use.

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
    """Return all type variables in post-order. `mod` is ignored; TVM has it."""
    types = [expr] if isinstance(expr, Type) else (ty for node in post_order(expr) for ty in _types_of(node))
    return list(dict.fromkeys(node for ty in types for node in _type_nodes(ty) if isinstance(node, TypeVar)))


def bound_type_vars(expr: Expr | Type, mod: object = None) -> list[TypeVar]:
    """Return the type parameters of functions, function types and data types.

    Those of a data type are found in the constructors; `mod` is ignored.
    """
    nodes: Iterable[Expr] = () if isinstance(expr, Type) else post_order(expr)
    bound: list[TypeVar] = []
    types = [expr] if isinstance(expr, Type) else []
    for node in nodes:
        bound += node.type_params if isinstance(node, Function) else _params_of_data(node)
        types += _types_of(node)
    type_nodes = (type_node for ty in types for type_node in _type_nodes(ty))
    bound += [var for type_node in type_nodes if isinstance(type_node, FuncType) for var in type_node.type_params]
    return list(dict.fromkeys(bound))


def free_type_vars(expr: Expr | Type, mod: object = None) -> list[TypeVar]:
    """Return the type variables that are not bound in `expr`. `mod` is ignored."""
    nodes = [] if isinstance(expr, Type) else list(post_order(expr))
    types = [expr] if isinstance(expr, Type) else [ty for node in nodes for ty in _types_of(node)]
    bound = {var for node in nodes if isinstance(node, Function) for var in node.type_params}
    # The definition of a data type binds the type variables of its constructors.
    bound.update(var for node in nodes for var in _params_of_data(node))
    return [var for var in dict.fromkeys(free for ty in types for free in _free_in(ty)) if var not in bound]


def _params_of_data(node: Expr) -> list[TypeVar]:
    inputs = node.inputs if isinstance(node, Constructor) else ()
    return [part for ty in inputs for part in _type_nodes(ty) if isinstance(part, TypeVar)]


def _types_of(node: Expr) -> list[Type]:
    """Return the annotated types of a node, without inferred types."""
    if isinstance(node, Var):
        return [] if node.type_annotation is None else [node.type_annotation]
    if isinstance(node, Function):
        return [*node.type_params, *([] if node.ret_type is None else [node.ret_type])]
    if isinstance(node, Call):
        return list(node.type_args)
    return list(node.inputs) if isinstance(node, Constructor) else []


def _free_in(ty: Type) -> Iterator[TypeVar]:
    """Iterate over free type variables in order of first use; others may be bound."""
    stack: list[tuple[Type, frozenset[TypeVar]]] = [(ty, frozenset())]
    seen = set[tuple[int, frozenset[TypeVar]]]()  # a type that shares parts may be exponentially large as a tree
    while stack:
        node, bound = stack.pop()
        if (id(node), bound) in seen:
            continue
        seen.add((id(node), bound))
        if isinstance(node, TypeVar) and node not in bound:
            yield node
        if isinstance(node, FuncType) and node.type_params:
            bound |= set(node.type_params)
        stack += [(part, bound) for part in reversed(_parts_of(node))]


def _type_nodes(ty: Type) -> Iterator[Type]:
    """Iterate over a type and its components, each once and without recursion."""
    stack, seen = [ty], set[int]()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        stack += reversed(_parts_of(node))


def _parts_of(ty: Type) -> tuple[Type, ...]:
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
