"""Binding of expressions to variables in their home scopes, for the normal forms."""

from collections.abc import Callable, Collection, Iterable, Iterator
from copy import copy
from typing import Final, Self

from apass.relay.dataflow.scopes import Enter, HomeScope, evaluation_order, home_scopes, scope_parts
from apass.relay.ir.adt import Clause, Constructor, Match
from apass.relay.ir.expr import Expr, GlobalVar, If, Let, Op, Var, set_field
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.visitors.expr_functor import ExprMutator

__all__ = ["LetBinder", "LetScope", "convert_bodies", "convert_body"]

ATOMS: Final = frozenset({Var, GlobalVar, Op, Constructor})
"""Kinds of expressions that are never bound."""


def convert_body(expr: Expr, convert: Callable[[Expr], Expr]) -> Expr:
    """Return a function with its body converted, or another expression converted."""
    return _with_body(expr, convert(expr.body)) if isinstance(expr, Function) else convert(expr)


def convert_bodies(mod: IRModule, convert: Callable[[Expr], Expr]) -> IRModule:
    """Return a module with its bodies converted, except those of external functions.

    These are compiled by another compiler. As in TVM, a converted function has no types.
    """
    updates: dict[str, Expr] = {}
    for gvar in mod.get_global_vars():
        func = mod[gvar]
        new = func if "Compiler" in func.attrs else convert_body(func, convert)
        if new is not func:
            updates[gvar.name_hint] = _TypeRemover().visit(new)
    return mod.with_functions(updates) if updates else mod


class _TypeRemover(ExprMutator):
    """Removes the types of all expressions outside of kernels."""

    def visit(self, expr: Expr) -> Expr:
        if expr in self.memo_map or (isinstance(expr, Function) and _is_primitive(expr)):
            return self.memo_map.setdefault(expr, expr)
        new = super().visit(expr)
        if new.checked_type_ is not None and new.children:
            new = copy(new)
            set_field(new, "checked_type_", None)
            self.memo_map[expr] = new
        return new


def _with_body(func: Function, body: Expr) -> Function:
    signature = (func.ret_type, func.type_params, func.attrs)
    return func if body is func.body else Function(func.params, body, *signature, span=func.span)


def _is_primitive(func: Function) -> bool:
    """Return whether a function is one kernel, whose body is left as it is."""
    return bool(func.attrs.get("Primitive"))


class LetScope(HomeScope):
    """A scope and its bindings."""

    __slots__ = ("_bound",)

    def __init__(self, parent: Self | None = None) -> None:
        super().__init__(parent)
        self._bound: list[tuple[Var, Expr, Let | None]] = []

    def bind(self, var: Var, value: Expr, let: Let | None = None) -> Var:
        """Bind a variable; `let` is the Let that bound it before, if any."""
        self._bound.append((var, value, let))
        return var

    def close(self, body: Expr) -> Expr:
        """Return an expression with all bindings of the scope around it."""
        for var, value, let in reversed(self._bound):
            if let is not None and let.value is value and let.body is body:
                body = let
            else:
                body = Let(var, value, body, span=value.span if let is None else let.span)
        return body


class LetBinder(ExprMutator):
    """Binds expressions to variables in their home scopes.

    The binding comes just before the first use in that scope. Variables that a Let binds stay bound. As in TVM, `x` is
    replaced by `y` after `let y = x`. This holds also for the variable of an expression that was bound before, where
    TVM replaces it only if the pass is applied again.
    """

    def __init__(
        self,
        root: Expr,
        has_let_scopes: bool,
        atoms: Collection[type[Expr]] = ATOMS,
        is_opaque: Callable[[Function], bool] = _is_primitive,
    ) -> None:
        """Analyse an expression.

        Parameters:
            root: the expression.
            has_let_scopes: whether every Let is a scope of its own, and does not move.
            atoms: the kinds of expressions that are not analysed; to bind expressions, leave the default.
            is_opaque: returns whether a function is analysed as a whole; to bind expressions, leave the default.

        """
        super().__init__()
        self._root = root
        self._has_let_scopes = has_let_scopes
        self._atoms = atoms
        self._is_opaque = is_opaque
        self._order = evaluation_order(root, atoms, is_opaque)
        self._outermost = LetScope()
        self._parts: dict[Expr, list[LetScope]] = {}
        self._homes = home_scopes(self._outermost, self._order, atoms, self._open)
        self._named: dict[Expr, Let] = {}
        self._done: set[Let] = set()
        self._variables: dict[Expr, Var] = {}
        self._aliases: dict[Expr, list[tuple[LetScope, Var]]] = {}

    def bind(self, is_bound: Callable[[Expr], bool]) -> Expr:
        """Return the expression with bindings for all expressions that `is_bound` selects.

        If all of them are bound already, the same object is returned.
        """
        for event in self._order:
            if isinstance(event, Enter):
                if isinstance(event.binder, Let):
                    self._enter_let(event.binder, event.part)
            elif isinstance(event, Let) and not self._has_let_scopes:
                self.memo_map[event] = self._visit_in(self._homes[event], event.body)
            else:
                self.memo_map[event] = self._bind(event, is_bound)
        return self._outermost.close(self._visit_in(self._outermost, self._root))

    def lifted(self) -> set[Expr]:
        """Return expressions whose home scope is not the scope of their first use.

        These are what TVM's basic block normal form binds.
        """
        first: dict[Expr, LetScope] = {}
        work = [(self._root, self._outermost)]
        while work:
            node, scope = work.pop()
            if type(node) in self._atoms or node in first:
                continue
            first[node] = scope
            if not (isinstance(node, Function) and self._is_opaque(node)):
                work += reversed(list(self._edges(node)))
        return {node for node, scope in first.items() if scope is not self._homes[node]}

    def _edges(self, node: Expr) -> Iterator[tuple[Expr, LetScope]]:
        """Iterate over the children of a node, each with the scope of its use."""
        home = self._homes[node]
        for part, children in scope_parts(node):
            scope = self._parts[node][part] if part >= 0 and node in self._parts else home
            yield from ((child, scope) for child in children)

    def _open(self, scope: LetScope, node: Expr, part: int) -> LetScope | None:
        if isinstance(node, Let) and not self._has_let_scopes:
            return None
        inner = LetScope(scope)
        self._parts.setdefault(node, []).append(inner)
        return inner

    def _enter_let(self, let: Let, part: int) -> None:
        if part == 0:
            self._name(let.value, let)
            return
        if let not in self._done:
            scope = self._parts[let][0] if let in self._parts else self._homes[let]
            value = self._visit_in(scope, let.value)
            scope.bind(let.var, value, let)
            if type(value) is Var:
                # Of the new value: of two Lets of `x`, the second one is `let z = y`, so that `y` is `z` after it.
                self._aliases.setdefault(value, []).append((scope, let.var))
        if let in self._named and not self._has_let_scopes:
            self._name(let.body, self._named.pop(let))

    def _name(self, value: Expr, let: Let) -> None:
        """Reserve the variable of a Let for a value, if the value has none yet."""
        if type(value) not in ATOMS and value not in self.memo_map:
            self._named.setdefault(value, let)

    def _bind(self, node: Expr, is_bound: Callable[[Expr], bool]) -> Expr:
        """Return the variable of a node, or the rebuilt node if it is not bound."""
        scope = self._homes[node]
        self._use_aliases(scope, node.children)
        new = self._rebuild(node)
        let = self._named.pop(node, None)
        if let is None and not is_bound(node):
            return new
        if let is not None:
            self._done.add(let)
        variable = self._variables[node] = scope.bind(Var("x") if let is None else let.var, new, let)
        return variable

    def _rebuild(self, node: Expr) -> Expr:
        """Return a node with its rewritten children; the same node if they are unchanged."""
        if isinstance(node, If):
            return self._rebuild_if(node)
        if isinstance(node, Match):
            return self._rebuild_match(node)
        if isinstance(node, Let):
            return self._closed(node, 0, node.body)
        if not isinstance(node, Function):
            return self.visit(node)
        if _is_primitive(node):
            return node
        return _with_body(node, self._closed(node, 0, node.body))

    def _rebuild_if(self, node: If) -> If:
        cond = self.visit(node.cond)
        true_branch, false_branch = self._closed(node, 0, node.true_branch), self._closed(node, 1, node.false_branch)
        if cond is node.cond and true_branch is node.true_branch and false_branch is node.false_branch:
            return node
        return If(cond, true_branch, false_branch, span=node.span)

    def _rebuild_match(self, node: Match) -> Match:
        data = self.visit(node.data)
        results = [self._closed(node, index, clause.rhs) for index, clause in enumerate(node.clauses)]
        if data is node.data and all(new is clause.rhs for new, clause in zip(results, node.clauses, strict=True)):
            return node
        clauses = [Clause(clause.lhs, new) for new, clause in zip(results, node.clauses, strict=True)]
        return Match(data, clauses, node.complete, span=node.span)

    def _closed(self, node: Expr, part: int, result: Expr) -> Expr:
        scope = self._parts[node][part]
        return scope.close(self._visit_in(scope, result))

    def _visit_in(self, scope: LetScope, expr: Expr) -> Expr:
        """Return the rewritten node, where it is used in a scope."""
        self._use_aliases(scope, (expr,))
        return self.visit(expr)

    def _use_aliases(self, scope: LetScope, exprs: Iterable[Expr]) -> None:
        """Map variables and bound expressions to their latest variables.

        Lets around or in a scope bind these.
        """
        if self._aliases:
            for expr in exprs:
                found: Expr | None = self._variables.get(expr, expr)
                if found not in self._aliases:
                    continue
                while found is not None:
                    self.memo_map[expr] = found
                    aliases = self._aliases.get(found, ())
                    found = next((alias for outer, alias in aliases if scope.is_in(outer)), None)
