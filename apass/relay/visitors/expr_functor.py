"""`ExprFunctor`, `ExprVisitor` and `ExprMutator`: visitors of expressions.

A subclass defines a method such as `visit_call(self, call)` for each kind of node that it handles. Results are stored
in `memo_map`, so that a shared node is visited once. ExprVisitor and ExprMutator have no depth limit.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from operator import is_
from typing import ClassVar, Final, Generic, NoReturn, TypeVar, cast

from apass.errors import did_you_mean
from apass.relay.ir.adt import Clause, Constructor, Match
from apass.relay.ir.expr import (
    Call,
    Constant,
    Expr,
    GlobalVar,
    If,
    Let,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from apass.relay.ir.function import Function
from apass.relay.visitors.patterns import rewrite_pattern

__all__ = ["METHODS", "DeepFunctor", "ExprFunctor", "ExprMutator", "ExprVisitor", "check_methods", "rewrite_function"]

R = TypeVar("R")

METHODS: Final[Mapping[type[Expr], str]] = {
    Var: "visit_var",
    GlobalVar: "visit_global_var",
    Constant: "visit_constant",
    Tuple: "visit_tuple",
    TupleGetItem: "visit_tuple_getitem",
    Call: "visit_call",
    Let: "visit_let",
    If: "visit_if",
    Function: "visit_function",
    Op: "visit_op",
    Constructor: "visit_constructor",
    Match: "visit_match",
    RefCreate: "visit_ref_create",
    RefRead: "visit_ref_read",
    RefWrite: "visit_ref_write",
}
"""The method name for each class of expressions."""
_DATAFLOW: Final = frozenset({Call, Tuple, TupleGetItem, RefCreate, RefRead, RefWrite})
_SCOPED: Final = frozenset({Let, If, Function, Match})


def check_methods(cls: type, prefix: str, names: Collection[str]) -> None:
    """Check the method names of a visitor class.

    Raises:
        TypeError: if a method starts with `prefix` and is not one of `names`. The message suggests a similar name.

    """
    # At class creation, because a misspelled method would never be called, without an error.
    for name in dir(cls):
        if name.startswith(prefix) and name not in names:
            hint = did_you_mean(name, names, listing="expected one of: ")
            raise TypeError(f"unknown visitor method {cls.__name__}.{name}{hint}")


class ExprFunctor(Generic[R]):
    """Base of visitors: `visit(expr)` calls the method for the class of `expr`.

    A subclass defines a `visit_` method for each class of nodes that it can encounter. The methods call `self.visit`
    for children, so Python's recursion limit applies. ExprVisitor and ExprMutator have no such limit.

    A subclass with an unknown method name that starts with `visit_` raises TypeError at class creation.
    """

    _methods: ClassVar[Mapping[type[Expr], Callable[..., object]]] = {}

    def __init__(self) -> None:
        """Create an empty memo."""
        self.memo_map: dict[Expr, R] = {}
        """The results by visited expression. A method may set results of expressions that are not visited yet."""

    def __init_subclass__(cls, **options: object) -> None:
        """Check the method names, and build the dispatch table."""
        super().__init_subclass__(**options)
        check_methods(cls, "visit_", METHODS.values())
        cls._methods = {kind: getattr(cls, name, _unhandled) for kind, name in METHODS.items()}

    def visit(self, expr: Expr) -> R:
        """Return the result for an expression, from the memo if possible.

        Raises:
            NotImplementedError: if the class does not define the method for `expr`.
            TypeError: if `expr` is not a Relay expression.

        """
        memo = self.memo_map
        if expr not in memo:
            memo[expr] = cast("R", self._methods.get(type(expr), _unhandled)(self, expr))
        return memo[expr]


def _unhandled(functor: object, expr: Expr) -> NoReturn:
    method = METHODS.get(type(expr))
    if method is None:
        raise TypeError(f"{type(functor).__name__} cannot visit {expr!r}: expected a Relay expression")
    raise NotImplementedError(f"{type(functor).__name__} cannot visit {expr!r}: define {method}")


class DeepFunctor(ExprFunctor[R]):
    """An ExprFunctor with an explicit stack: children are visited before their parent.

    - Dataflow nodes (calls, tuples, tuple fields and references): always, unless the class is created with
      `operands_first=False`. Then the methods decide which children to visit, and Python's recursion limit applies.
    - If, Function and Match: if the class does not override the method, or is created with `scopes_first=True`.
      Otherwise the method visits the children.
    - Let: if the class does not override `visit_let`. The order is: visit the value, call `pre_visit_let(let)`, visit
      the body, call `post_visit_let(let)` for the result. This is TVM's `ExpandANormalForm`.

    Subclasses inherit both options. The methods of direct subclasses of this class are the defaults: they count as not
    overridden.
    """

    _defaults: ClassVar[Mapping[type[Expr], Callable[..., object]]] = {}
    _first: ClassVar[frozenset[type[Expr]]] = frozenset()
    _is_plain: ClassVar[bool] = True
    _operands_first: ClassVar[bool] = True
    _scopes_first: ClassVar[bool] = False

    def __init_subclass__(
        cls, operands_first: bool | None = None, scopes_first: bool | None = None, **options: object
    ) -> None:
        """Determine the classes whose children are visited first."""
        super().__init_subclass__(**options)
        cls._operands_first = cls._operands_first if operands_first is None else operands_first
        cls._scopes_first = cls._scopes_first if scopes_first is None else scopes_first
        if DeepFunctor in cls.__bases__:
            cls._defaults = cls._methods
        inherited = {kind for kind, method in cls._methods.items() if method is cls._defaults[kind]}
        scoped = _SCOPED - {Let} | inherited if cls._scopes_first else inherited
        cls._first = _DATAFLOW | (_SCOPED & scoped) if cls._operands_first else frozenset()
        cls._is_plain = cls.visit is vars(DeepFunctor)["visit"]
        if Let in cls._first:
            cls._methods = {**cls._methods, Let: cls.post_visit_let}

    def __init__(self) -> None:
        """Create an empty memo."""
        super().__init__()
        self._entered: set[Let] = set()

    def visit(self, expr: Expr) -> R:
        """Return the result for an expression, from the memo if possible.

        If a subclass overrides this method, its version is called for every node.
        """
        memo = self.memo_map
        if expr in memo:
            return memo[expr]
        first = self._first
        calls_first = Call in first
        methods = cast("Mapping[type[Expr], Callable[..., R]]", self._methods)
        stack: list[Expr | None] = [expr]  # None: all children of the last of `entered` have been visited
        entered: list[Expr] = []
        while stack:
            node = stack.pop()
            if node is None:
                node = entered.pop()
                # After the value of a Let, visit its body; the second time, call its method.
                if type(node) is Let and self._enters(node):
                    entered.append(node)
                    stack += (None, node.body)
                    continue
            elif node in memo:
                continue
            elif type(node) is Call and calls_first:  # a fast path for the next case, because most nodes are calls
                entered.append(node)
                stack += (None, *node.args[::-1], node.op)
                continue
            elif type(node) in first:
                entered.append(node)
                stack += (None, *_visited_first(node))
                continue
            visit = methods.get(type(node), _unhandled) if self._is_plain or node is expr else type(self).visit
            memo[node] = visit(self, node)
        return memo[expr]

    def pre_visit_let(self, let: Let) -> None:
        """Handle a Let between the visits of its value and its body."""

    def post_visit_let(self, let: Let) -> R:
        """Return the result for a Let after the visits of its value and body."""
        raise NotImplementedError

    def visit_let(self, let: Let) -> R:
        """Visit the value, then the body. Called only by overriding methods."""
        self.visit(let.value)
        self.pre_visit_let(let)
        self.visit(let.body)
        return self.post_visit_let(let)

    def _enters(self, let: Let) -> bool:
        """On the first call for a Let, call `pre_visit_let` and return True."""
        if let in self._entered:
            return False
        self._entered.add(let)
        self.pre_visit_let(let)
        return True


def _visited_first(node: Expr) -> tuple[Expr, ...]:
    """Return the children to visit before a node in reverse; of a Let only the value."""
    return (node.value,) if isinstance(node, Let) else node.children[::-1]


class ExprVisitor(DeepFunctor[None]):
    """A visitor of all subexpressions, each once, for passes that collect information.

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

    def _visit_children(self, expr: Expr) -> None:
        memo = self.memo_map
        for child in expr.children:
            if child not in memo:
                self.visit(child)

    def post_visit_let(self, let: Let) -> None:
        """Visit the variable."""
        self.visit(let.var)

    def visit_var(self, var: Var) -> None:
        """Do nothing, because the node has no children."""

    def visit_global_var(self, gvar: GlobalVar) -> None:
        """Do nothing, because the node has no children."""

    def visit_constant(self, const: Constant) -> None:
        """Do nothing, because the node has no children."""

    def visit_op(self, op: Op) -> None:
        """Do nothing, because the node has no children."""

    def visit_constructor(self, con: Constructor) -> None:
        """Do nothing, because the node has no children."""

    def visit_tuple(self, tup: Tuple) -> None:
        """Visit the fields."""
        self._visit_children(tup)

    def visit_tuple_getitem(self, op: TupleGetItem) -> None:
        """Visit the tuple."""
        self.visit(op.tuple_value)

    def visit_call(self, call: Call) -> None:
        """Visit the callee, then the arguments."""
        self._visit_children(call)

    def visit_if(self, ite: If) -> None:
        """Visit the condition and both branches."""
        self._visit_children(ite)

    def visit_function(self, fn: Function) -> None:
        """Visit the parameters, then the body."""
        self._visit_children(fn)

    def visit_match(self, match: Match) -> None:
        """Visit the value, then the variables and the result of each clause."""
        self._visit_children(match)

    def visit_ref_create(self, ref: RefCreate) -> None:
        """Visit the initial value."""
        self.visit(ref.value)

    def visit_ref_read(self, ref: RefRead) -> None:
        """Visit the cell."""
        self.visit(ref.ref)

    def visit_ref_write(self, ref: RefWrite) -> None:
        """Visit the cell and the value."""
        self._visit_children(ref)


class ExprMutator(DeepFunctor[Expr]):
    """A visitor that returns a rewritten expression and keeps unchanged nodes.

    >>> class AddToSubtract(ExprMutator):
    ...     def visit_call(self, call):
    ...         new = super().visit_call(call)
    ...         return Call(GlobalVar("sub"), new.args) if new.op.name_hint == "add" else new
    >>> x = Var("x")
    >>> AddToSubtract().visit(Call(GlobalVar("add"), [x, x])).op
    <relay.GlobalVar @sub>
    """

    def mutate(self, expr: Expr) -> Expr:
        """Return `visit(expr)`, under the name in TVM's C++."""
        return self.visit(expr)

    def mutate_all(self, exprs: Iterable[Expr]) -> tuple[Expr, ...]:
        """Return the results for several expressions, the same tuple if none changes."""
        old = tuple(exprs)
        results = tuple(map(self.memo_map.get, old))
        # Expressions have identity equality, so `==` compares the objects.
        return old if results == old else tuple([self.visit(expr) for expr in old])

    def mutate_binder(self, var: Var) -> Var:
        """Return the result for a variable at its binding.

        Raises:
            TypeError: if the result is not a variable.

        """
        new = self.visit(var)
        if not isinstance(new, Var):
            raise TypeError(f"{type(self).__name__} must rewrite the bound {var!r} to a Var, got {new!r}")
        return new

    def visit_var(self, var: Var) -> Expr:
        """Return the variable itself."""
        return var

    def visit_global_var(self, gvar: GlobalVar) -> Expr:
        """Return the global variable itself."""
        return gvar

    def visit_constant(self, const: Constant) -> Expr:
        """Return the constant itself."""
        return const

    def visit_op(self, op: Op) -> Expr:
        """Return the operator itself."""
        return op

    def visit_constructor(self, con: Constructor) -> Expr:
        """Return the constructor itself."""
        return con

    def visit_tuple(self, tup: Tuple) -> Expr:
        """Rewrite the fields."""
        fields = self.mutate_all(tup.fields)
        return tup if fields is tup.fields else Tuple(fields, span=tup.span)

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        """Rewrite the tuple."""
        value = self.visit(op.tuple_value)
        return op if value is op.tuple_value else TupleGetItem(value, op.index, span=op.span)

    def visit_call(self, call: Call) -> Expr:
        """Rewrite the callee and the arguments. The new call has no inferred type."""
        callee, args = self.visit(call.op), self.mutate_all(call.args)
        if callee is call.op and args is call.args:
            return call
        return Call(callee, args, call.attrs, call.type_args, span=call.span)

    def post_visit_let(self, let: Let) -> Expr:
        """Rewrite the variable, the value and the body."""
        var, value, body = self.mutate_binder(let.var), self.visit(let.value), self.visit(let.body)
        if var is let.var and value is let.value and body is let.body:
            return let
        return Let(var, value, body, span=let.span)

    def visit_if(self, ite: If) -> Expr:
        """Rewrite the condition and the branches."""
        old = ite.children
        new = self.mutate_all(old)
        if new is old:
            return ite
        cond, true_branch, false_branch = new
        return If(cond, true_branch, false_branch, span=ite.span)

    def visit_function(self, fn: Function) -> Expr:
        """Rewrite the parameters and the body."""
        params, body = [self.mutate_binder(param) for param in fn.params], self.visit(fn.body)
        if body is fn.body and _same(params, fn.params):
            return fn
        return Function(params, body, fn.ret_type, fn.type_params, fn.attrs, span=fn.span)

    def visit_match(self, match: Match) -> Expr:
        """Rewrite the value and the clauses."""
        data, clauses = self.visit(match.data), [self._mutate_clause(clause) for clause in match.clauses]
        if data is match.data and _same(clauses, match.clauses):
            return match
        return Match(data, clauses, match.complete, span=match.span)

    def visit_ref_create(self, ref: RefCreate) -> Expr:
        """Rewrite the initial value."""
        value = self.visit(ref.value)
        return ref if value is ref.value else RefCreate(value, span=ref.span)

    def visit_ref_read(self, ref: RefRead) -> Expr:
        """Rewrite the cell."""
        cell = self.visit(ref.ref)
        return ref if cell is ref.ref else RefRead(cell, span=ref.span)

    def visit_ref_write(self, ref: RefWrite) -> Expr:
        """Rewrite the cell and the value."""
        cell, value = self.visit(ref.ref), self.visit(ref.value)
        return ref if cell is ref.ref and value is ref.value else RefWrite(cell, value, span=ref.span)

    def _mutate_clause(self, clause: Clause) -> Clause:
        lhs, rhs = rewrite_pattern(clause.lhs, self.mutate_binder), self.visit(clause.rhs)
        return clause if lhs is clause.lhs and rhs is clause.rhs else Clause(lhs, rhs)


def _same(new: Iterable[object], old: Iterable[object]) -> bool:
    return all(map(is_, new, old))


def rewrite_function(mutator: ExprMutator, func: Function) -> Function:
    """Return a function rewritten by a mutator.

    Raises:
        TypeError: if the result is not a function.

    """
    result = mutator.visit(func)
    if not isinstance(result, Function):
        raise TypeError(f"{type(mutator).__name__} must rewrite a function to a function, got {result!r}")
    return result
