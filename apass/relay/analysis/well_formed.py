"""`well_formed` and `what_is_ill_formed`: whether every variable is bound once, and used only where it is bound."""

from collections.abc import Iterator
from typing import Final

from apass.relay.adt import Constructor, Match
from apass.relay.dataflow.scopes import Scope, evaluation_order, home_scopes
from apass.relay.expr import Call, Constant, Expr, GlobalVar, Let, Op, Var
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.ty import FuncType, TensorType, Type, TypeVar
from apass.relay.type_inference.unify import parts_of

__all__ = ["well_formed", "what_is_ill_formed"]


def well_formed(expr: Expr | IRModule) -> bool:
    """Tell whether nothing is wrong with the variables of an expression, or of the functions of a module.

    >>> from apass.relay.make import var
    >>> x = var("x")
    >>> well_formed(Function([x], x)), well_formed(Function([x], Function([x], x)))
    (True, False)
    """
    return not what_is_ill_formed(expr)


def what_is_ill_formed(expr: Expr | IRModule) -> list[str]:
    """Return what is wrong with an expression or a module, each thing in a sentence; nothing if it is well-formed.

    A variable must be bound once, and a type variable where it is used. Both are bound within a Let, a function, a
    clause; an expression that is shared is used in all the places that share it. An expression may have free variables;
    a function of a module has none, and refers only to functions and data types that the module has.
    """
    if isinstance(expr, IRModule):
        return [one for gvar in expr.get_global_vars() for one in _in_function(gvar, expr)]
    return list(_Bindings(expr).faults(may_be_free=True))


def _in_function(gvar: GlobalVar, mod: IRModule) -> Iterator[str]:
    func = mod[gvar]
    faults = [*_Bindings(func).faults(may_be_free=False), *_undefined(func, mod)]
    return (f"in @{gvar.name_hint}: {one}" for one in faults)


def _undefined(func: Function, mod: IRModule) -> Iterator[str]:
    """Go over the functions and data types that a function refers to and that its module does not have."""
    known = mod.type_definitions
    for node in post_order(func):
        if isinstance(node, GlobalVar) and node not in mod:
            yield f"the module has no function @{node.name_hint}"
        elif isinstance(node, Constructor) and node.belong_to not in known:
            yield f"the module has no data type {node.belong_to}"


_ATOMS: Final = (Constant, Constructor, GlobalVar, Op)


class _Bindings:
    """Where the variables of an expression are bound and used."""

    def __init__(self, expr: Expr) -> None:
        self._inner: dict[tuple[Expr, int], Scope] = {}
        self._bound: dict[Var, Scope] = {}
        self._type_bound: dict[TypeVar, list[Scope]] = {}
        self._repeated: list[Var] = []
        self._order = [one for one in evaluation_order(expr, _ATOMS) if isinstance(one, Expr)]
        self._homes = home_scopes(Scope(), self._order, _ATOMS, self._open)
        for node in self._order:
            self._bind(node)

    def faults(self, *, may_be_free: bool) -> Iterator[str]:
        """Go over what is wrong; variables that nothing binds are, unless they may be free."""
        for var in dict.fromkeys(self._repeated):
            yield f"%{var.name_hint} is bound more than once"
        for node in self._order:
            if isinstance(node, Var):
                yield from self._faults_of_use(node, may_be_free)
        for type_var in dict.fromkeys(self._type_faults(may_be_free)):
            yield f"the type variable {type_var} is used where it is not bound"

    def _open(self, scope: Scope, node: Expr, part: int) -> Scope | None:
        """Make the scope of a part of a node; the branches of an If bind nothing and need none."""
        if not isinstance(node, Let | Function | Match):
            return None
        made = self._inner[node, part] = Scope(scope)
        return made

    def _bind(self, node: Expr) -> None:
        if isinstance(node, Function):
            self._bind_all(node.params, self._inner[node, 0])
            for param in node.type_params:
                self._type_bound.setdefault(param, []).append(self._inner[node, 0])
        elif isinstance(node, Let):
            self._bind_all((node.var,), self._inner[node, 0])
        elif isinstance(node, Match):
            for part, clause in enumerate(node.clauses):
                self._bind_all(clause.lhs.bound, self._inner[node, part])

    def _bind_all(self, variables: tuple[Var, ...], scope: Scope) -> None:
        for var in variables:
            if var in self._bound:
                self._repeated.append(var)
            self._bound[var] = scope

    def _faults_of_use(self, var: Var, may_be_free: bool) -> Iterator[str]:
        scope = self._bound.get(var)
        if scope is None and not may_be_free:
            yield f"%{var.name_hint} is not bound"
        elif scope is not None and not self._homes[var].is_in(scope):
            yield f"%{var.name_hint} is used outside of where it is bound"

    def _type_faults(self, may_be_free: bool) -> Iterator[TypeVar]:
        for ty, scope in self._written_types():
            for var in _free_type_vars(ty):
                bound = self._type_bound.get(var, [])
                if not any(map(scope.is_in, bound)) and (bound or not may_be_free):
                    yield var

    def _written_types(self) -> Iterator[tuple[Type, Scope]]:
        """Go over the types that are written in the expression, with the scopes that they are in."""
        for var, scope in self._bound.items():
            if var.type_annotation is not None:
                yield var.type_annotation, scope
        for node in self._order:
            if isinstance(node, Call):
                yield from ((one, self._homes[node]) for one in node.type_args)
            elif isinstance(node, Function) and node.ret_type is not None:
                yield node.ret_type, self._inner[node, 0]


def _free_type_vars(ty: Type) -> list[TypeVar]:
    """Return the type variables of a type that no function type within it binds."""
    if type(ty) is TensorType:
        return []
    found: dict[TypeVar, None] = {}
    bound: set[TypeVar] = set()
    stack, seen = [ty], {id(ty)}
    while stack:
        one = stack.pop()
        if isinstance(one, TypeVar):
            found[one] = None
        bound.update(one.type_params if isinstance(one, FuncType) else ())
        below = [part for part in parts_of(one) if id(part) not in seen]
        seen.update(map(id, below))
        stack += below
    return [var for var in found if var not in bound]
