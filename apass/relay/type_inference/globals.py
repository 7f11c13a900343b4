"""`GlobalTypes`: the types of a module's functions, told by their authors or yet to be found; for type inference."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from apass.errors import did_you_mean
from apass.relay.adt import Constructor
from apass.relay.errors import TypeInferenceError
from apass.relay.expr import Call, Expr, GlobalVar
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ty import FuncType, Type, TypeVar
from apass.relay.type_inference.unify import TypeUnifier
from apass.relay.visitors.recursion import Walk, walk_deep

__all__ = ["GlobalTypes"]


class GlobalTypes:
    """The types of the functions of a module."""

    def __init__(self, mod: IRModule, trust: bool) -> None:
        self._mod = mod
        self._trust = trust
        self._found: dict[str, Type | None] = {}

    def __call__(self, gvar: GlobalVar) -> Type | str | None:
        """Return the type of a function; None if it has errors, a message if the module has no such function."""
        name = gvar.name_hint
        if name not in self._found:
            if name not in self._mod:
                known = [one.name_hint for one in self._mod.get_global_vars()]
                hint = did_you_mean(name, known, listing="the module has: ")
                return f"the module has no function @{name}{hint}"
            self._found[name] = self._declared(self._mod[name])
        return self._found[name]

    def names_in(self, expr: Expr) -> list[str]:
        """Return the names of the functions that an expression refers to."""
        return [one.name_hint for one in _below([expr]) if isinstance(one, GlobalVar)]

    def set(self, name: str, ty: Type | None) -> None:
        """Let a function be of a type; None: it has errors, which have been reported."""
        self._found[name] = ty

    def groups(self, start: Iterable[str]) -> list[list[str]]:
        """Return the functions that do not tell all of their types, of those named and those that these refer to.

        Those that refer to each other come together, after those that they refer to besides.
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
        """Tell whether the functions that typed expressions refer to are still of the types that they had.

        A function that is used as a value is taken for one that has changed.
        """
        called: set[Expr] = set()
        nodes = list(_below(typed))
        for node in nodes:
            if isinstance(node, Call) and isinstance(node.op, GlobalVar):
                called.add(node.op)
                if not self._fits(node, self(node.op)):
                    return False
        return not any(self._is_loose(node) for node in nodes if node not in called)

    def _declared(self, func: Function) -> FuncType | None:
        """Return the type of a function if it is known without its body; None if not."""
        if self._trust and isinstance(func.checked_type_, FuncType):
            return func.checked_type_
        params = [one.type_annotation for one in func.params if one.type_annotation is not None]
        if func.ret_type is None or len(params) < len(func.params):
            return None
        declared = FuncType(params, func.ret_type, func.type_params)
        return declared if TypeUnifier().is_complete(declared) else None

    def _is_loose(self, node: Expr) -> bool:
        if isinstance(node, Constructor):
            return node.belong_to not in self._mod.type_definitions
        return isinstance(node, GlobalVar)

    def _fits(self, call: Call, callee: Type | str | None) -> bool:
        """Tell whether a typed call of a function goes with a type of the function."""
        if not isinstance(callee, FuncType) or len(callee.type_params) != len(call.type_args):
            return False
        unifier = TypeUnifier()
        chosen: dict[TypeVar, Type] = dict(zip(callee.type_params, call.type_args, strict=True))
        try:
            for param, arg in zip(callee.arg_types, call.args, strict=True):
                unifier.unify(unifier.substitute(param, chosen), arg.checked_type)
        except (TypeInferenceError, ValueError):
            return False  # a type or the number of arguments is another
        return unifier.substitute(callee.ret_type, chosen) == call.checked_type


def _below(exprs: Iterable[Expr]) -> Iterator[Expr]:
    """Go over expressions and all below them, each once, those above first."""
    stack = list(exprs)
    seen = set(stack)
    while stack:
        node = stack.pop()
        yield node
        for one in node.children:
            if one not in seen:
                seen.add(one)
                stack.append(one)


def _strong_components(edges: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the strongly connected components of a graph, each after those that it has edges to (Tarjan)."""
    numbers: dict[str, int] = {}
    path: list[str] = []
    places: dict[str, int] = {}
    found: list[list[str]] = []

    def visit(node: str) -> Walk[int]:
        low = numbers[node] = len(numbers)
        place = places[node] = len(path)
        path.append(node)
        for other in edges[node]:
            if other in places:
                low = min(low, numbers[other])
            elif other in edges and other not in numbers:
                low = min(low, (yield visit(other)))
        if low == numbers[node]:
            found.append(sorted(path[place:], key=numbers.__getitem__))
            for one in path[place:]:
                del places[one]
            del path[place:]
        return low

    for node in edges:
        if node not in numbers:
            walk_deep(visit(node))
    return found
