"""`GlobalTypes`: the declared or inferred types of the functions of a module."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from apass.errors import did_you_mean
from apass.relay.errors import TypeInferenceError
from apass.relay.ir.adt import Constructor
from apass.relay.ir.expr import Call, Expr, GlobalVar
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ty import FuncType, Type, TypeVar
from apass.relay.type_inference.unify import TypeUnifier
from apass.relay.visitors.recursion import Walk, walk_deep

__all__ = ["GlobalTypes"]


class GlobalTypes:
    """The types of the functions of a module."""

    def __init__(self, mod: IRModule, trust: bool) -> None:
        self._mod = mod
        self._trust = trust
        self._types: dict[str, Type | None] = {}

    def __call__(self, gvar: GlobalVar) -> Type | str | None:
        """Return the type of a function.

        The result is None if the function has errors, and a message if it does not exist.
        """
        name = gvar.name_hint
        if name not in self._types:
            if name not in self._mod:
                names = [gvar.name_hint for gvar in self._mod.get_global_vars()]
                hint = did_you_mean(name, names, listing="the module has: ")
                return f"the module has no function @{name}{hint}"
            self._types[name] = self._declared(self._mod[name])
        return self._types[name]

    def names_in(self, expr: Expr) -> list[str]:
        """Return the names of the functions that an expression refers to."""
        return [node.name_hint for node in _pre_order([expr]) if isinstance(node, GlobalVar)]

    def set(self, name: str, ty: Type | None) -> None:
        """Set the type of a function, None if the function has errors that were reported."""
        self._types[name] = ty

    def groups(self, start: Iterable[str]) -> list[list[str]]:
        """Return the functions without a declared type, reachable from `start`, in groups.

        A group contains functions that refer to each other. It follows the groups that it refers to.
        """
        edges: dict[str, list[str]] = {}
        stack = list(start)[::-1]
        while stack:
            name = stack.pop()
            if name in edges or name not in self._mod or self._declared(self._mod[name]) is not None:
                continue
            edges[name] = self.names_in(self._mod[name])
            stack += edges[name][::-1]
        return _strong_components(edges)

    def fit(self, typed: Sequence[Expr]) -> bool:
        """Return whether functions used by typed expressions still have the same types.

        A function that is used as a value counts as changed, because the expression does not store its type.
        """
        called: set[Expr] = set()
        nodes = list(_pre_order(typed))
        for node in nodes:
            if isinstance(node, Call) and isinstance(node.op, GlobalVar):
                called.add(node.op)
                if not self._fits(node, self(node.op)):
                    return False
        return not any(self._may_have_changed(node) for node in nodes if node not in called)

    def _declared(self, func: Function) -> FuncType | None:
        """Return the type of a function if its annotations are complete, else None."""
        if self._trust and isinstance(func.checked_type_, FuncType):
            return func.checked_type_
        params = [param.type_annotation for param in func.params if param.type_annotation is not None]
        if func.ret_type is None or len(params) < len(func.params):
            return None
        declared = FuncType(params, func.ret_type, func.type_params)
        return declared if TypeUnifier().is_complete(declared) else None

    def _may_have_changed(self, node: Expr) -> bool:
        if isinstance(node, Constructor):
            return node.belong_to not in self._mod.type_definitions
        return isinstance(node, GlobalVar)

    def _fits(self, call: Call, callee: Type | str | None) -> bool:
        """Return whether the types of a call match the type of the function."""
        if not isinstance(callee, FuncType) or len(callee.type_params) != len(call.type_args):
            return False
        unifier = TypeUnifier()
        chosen: dict[TypeVar, Type] = dict(zip(callee.type_params, call.type_args, strict=True))
        try:
            for param, arg in zip(callee.arg_types, call.args, strict=True):
                unifier.unify(unifier.substitute(param, chosen), arg.checked_type)
        except (TypeInferenceError, ValueError):
            return False  # a type or the number of arguments differs
        return unifier.substitute(callee.ret_type, chosen) == call.checked_type


def _pre_order(exprs: Iterable[Expr]) -> Iterator[Expr]:
    """Iterate over expressions and their subexpressions, each once, in pre-order."""
    stack = list(exprs)
    seen = set(stack)
    while stack:
        node = stack.pop()
        yield node
        for child in node.children:
            if child not in seen:
                seen.add(child)
                stack.append(child)


def _strong_components(edges: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the strongly connected components, successors first (Tarjan's algorithm)."""
    numbers: dict[str, int] = {}
    path: list[str] = []
    positions: dict[str, int] = {}
    components: list[list[str]] = []

    def visit(node: str) -> Walk[int]:
        low = numbers[node] = len(numbers)
        position = positions[node] = len(path)
        path.append(node)
        for other in edges[node]:
            if other in positions:
                low = min(low, numbers[other])
            elif other in edges and other not in numbers:
                low = min(low, (yield visit(other)))
        if low == numbers[node]:
            components.append(sorted(path[position:], key=numbers.__getitem__))
            for member in path[position:]:
                del positions[member]
            del path[position:]
        return low

    for node in edges:
        if node not in numbers:
            walk_deep(visit(node))
    return components
