"""`well_formed` and `what_is_ill_formed`: checks of the scopes of variables."""

from collections.abc import Iterator
from typing import Final

from apass.relay.dataflow.scopes import HomeScope, evaluation_order, home_scopes
from apass.relay.ir.adt import Constructor, Match
from apass.relay.ir.expr import Call, Constant, Expr, GlobalVar, Let, Op, Var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import FuncType, TensorType, Type, TypeVar
from apass.relay.type_inference.unify import parts_of

__all__ = ["well_formed", "what_is_ill_formed"]


def well_formed(expr: Expr | IRModule) -> bool:
    """Return whether all variables of an expression or a module are well scoped.

    >>> from apass.relay.ir.expr import var
    >>> x = var("x")
    >>> well_formed(Function([x], x)), well_formed(Function([x], Function([x], x)))
    (True, False)
    """
    return not what_is_ill_formed(expr)


def what_is_ill_formed(expr: Expr | IRModule) -> list[str]:
    """Return the scoping errors of an expression or a module, one sentence each.

    The rules are:

    - A variable is bound exactly once, and is used only within its scope.
    - A type variable is used only within a scope that binds it.
    - Scopes are the body of a `Let`, a function, and a clause of a `Match`.
    - A shared expression is used in the scope of each of its users.
    - An expression may have free variables; a function of a module has none.
    - A function of a module refers only to functions and data types of that module.
    """
    if isinstance(expr, IRModule):
        return [fault for gvar in expr.get_global_vars() for fault in _in_function(gvar, expr)]
    return list(_Bindings(expr).faults(may_be_free=True))


def _in_function(gvar: GlobalVar, mod: IRModule) -> Iterator[str]:
    func = mod[gvar]
    faults = [*_Bindings(func).faults(may_be_free=False), *_undefined(func, mod)]
    return (f"in @{gvar.name_hint}: {fault}" for fault in faults)


def _undefined(func: Function, mod: IRModule) -> Iterator[str]:
    """Iterate over references to functions and data types that the module lacks."""
    data_types = mod.type_definitions
    for node in post_order(func):
        if isinstance(node, GlobalVar) and node not in mod:
            yield f"the module has no function @{node.name_hint}"
        elif isinstance(node, Constructor) and node.belong_to not in data_types:
            yield f"the module has no data type {node.belong_to}"


_ATOMS: Final = (Constant, Constructor, GlobalVar, Op)


class _Bindings:
    """The scopes in which the variables of an expression are bound and used."""

    def __init__(self, expr: Expr) -> None:
        self._inner: dict[tuple[Expr, int], HomeScope] = {}
        self._bound: dict[Var, HomeScope] = {}
        self._type_bound: dict[TypeVar, list[HomeScope]] = {}
        self._repeated: list[Var] = []
        self._order = [node for node in evaluation_order(expr, _ATOMS) if isinstance(node, Expr)]
        self._homes = home_scopes(HomeScope(), self._order, _ATOMS, self._open)
        for node in self._order:
            self._bind(node)

    def faults(self, *, may_be_free: bool) -> Iterator[str]:
        """Iterate over the errors; unbound variables are errors unless `may_be_free`."""
        for var in dict.fromkeys(self._repeated):
            yield f"%{var.name_hint} is bound more than once"
        for node in self._order:
            if isinstance(node, Var):
                yield from self._faults_of_use(node, may_be_free)
        for type_var in dict.fromkeys(self._type_faults(may_be_free)):
            yield f"the type variable {type_var} is used where it is not bound"

    def _open(self, scope: HomeScope, node: Expr, part: int) -> HomeScope | None:
        """Return a new scope for a part of a node, or None if the part binds nothing."""
        # The branches of an If bind nothing and share the scope around them.
        if not isinstance(node, Let | Function | Match):
            return None
        inner = self._inner[node, part] = HomeScope(scope)
        return inner

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

    def _bind_all(self, variables: tuple[Var, ...], scope: HomeScope) -> None:
        for var in variables:
            if var in self._bound:
                self._repeated.append(var)
            self._bound[var] = scope

    def _faults_of_use(self, var: Var, may_be_free: bool) -> Iterator[str]:
        scope = self._bound.get(var)
        if scope is None and not may_be_free:
            yield f"%{var.name_hint} is not bound"
        elif scope is not None and not self._homes[var].is_in(scope):
            yield f"%{var.name_hint} is used outside its scope"

    def _type_faults(self, may_be_free: bool) -> Iterator[TypeVar]:
        for ty, scope in self._written_types():
            for var in _free_type_vars(ty):
                # Unlike a variable, a type parameter may be bound by several functions.
                bound = self._type_bound.get(var, [])
                if not any(map(scope.is_in, bound)) and (bound or not may_be_free):
                    yield var

    def _written_types(self) -> Iterator[tuple[Type, HomeScope]]:
        """Iterate over type annotations and arguments, with their scopes."""
        for var, scope in self._bound.items():
            if var.type_annotation is not None:
                yield var.type_annotation, scope
        for node in self._order:
            if isinstance(node, Call):
                yield from ((ty, self._homes[node]) for ty in node.type_args)
            elif isinstance(node, Function) and node.ret_type is not None:
                yield node.ret_type, self._inner[node, 0]


def _free_type_vars(ty: Type) -> list[TypeVar]:
    """Return the type variables that no function type within the type binds."""
    if type(ty) is TensorType:
        return []
    # A dict keeps the order of first use, so that errors are listed in a fixed order.
    variables: dict[TypeVar, None] = {}
    bound: set[TypeVar] = set()
    stack, seen = [ty], {id(ty)}
    while stack:
        part = stack.pop()
        if isinstance(part, TypeVar):
            variables[part] = None
        bound.update(part.type_params if isinstance(part, FuncType) else ())
        below = [child for child in parts_of(part) if id(child) not in seen]
        seen.update(map(id, below))
        stack += below
    return [var for var in variables if var not in bound]
