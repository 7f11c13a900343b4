"""`ExprFunctor` and `DeepFunctor`: functions on expressions by cases, the second to any depth.

For `apass.relay.expr_functor`, from which passes take them.
"""

from collections.abc import Callable, Collection, Mapping
from typing import ClassVar, Final, Generic, NoReturn, TypeVar, cast

from apass.errors import did_you_mean
from apass.relay.adt import Constructor, Match
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.ref import RefCreate, RefRead, RefWrite

__all__ = ["METHODS", "DeepFunctor", "ExprFunctor", "check_methods"]

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
"""The name of the method for each kind of expression."""
_DATAFLOW: Final = frozenset({Call, Tuple, TupleGetItem, RefCreate, RefRead, RefWrite})
_SCOPED: Final = frozenset({Let, If, Function, Match})


def check_methods(cls: type, prefix: str, known: Collection[str]) -> None:
    """Check the names of the methods of a class that are called by kind.

    Raises:
        TypeError: if one starts with `prefix` and is none of `known`; the message suggests the nearest one.

    """
    for name in dir(cls):
        if name.startswith(prefix) and name not in known:
            hint = did_you_mean(name, known, listing="known: ")
            raise TypeError(f"{cls.__name__}.{name} is called for no kind of expression{hint}")


class ExprFunctor(Generic[R]):
    """A function on expressions by cases: `visit(expr)` calls the method for the kind of `expr`.

    A subclass defines a `visit_` method for each kind that it may meet and calls `self.visit` for what is below; then
    depth is Python's limit. ExprVisitor and ExprMutator have no such limit.

    A method that starts with `visit_` and is none of the known ones is a TypeError when the class is created.
    """

    _methods: ClassVar[Mapping[type[Expr], Callable[..., object]]] = {}

    def __init__(self) -> None:
        """Start with an empty memo."""
        self.memo_map: dict[Expr, R] = {}
        """The result for each expression that was visited; a method may set it for others, before they are reached."""

    def __init_subclass__(cls, **options: object) -> None:
        """Check the names of the methods."""
        super().__init_subclass__(**options)
        check_methods(cls, "visit_", METHODS.values())
        cls._methods = {kind: getattr(cls, name, _unhandled) for kind, name in METHODS.items()}

    def visit(self, expr: Expr) -> R:
        """Return the result for an expression, from the memo if it was visited before.

        Raises:
            NotImplementedError: if the class has no method for its kind.
            TypeError: if it is no expression of Relay.

        """
        memo = self.memo_map
        if expr not in memo:
            memo[expr] = cast("R", self._methods.get(type(expr), _unhandled)(self, expr))
        return memo[expr]


def _unhandled(functor: object, expr: Expr) -> NoReturn:
    wanted = METHODS.get(type(expr))
    if wanted is None:
        raise TypeError(f"{expr!r} is no Relay expression; {type(functor).__name__} cannot visit it")
    raise NotImplementedError(f"{type(functor).__name__} met {expr!r} and has no {wanted}; define it")


class DeepFunctor(ExprFunctor[R]):
    """An ExprFunctor that visits what is below a node before the node, on a stack of its own.

    - Of a call, a tuple, a field of one and a reference, always; but not in a class made with `operands_first=False`,
      whose methods may leave out what is below: then depth is Python's limit.
    - Of an If, a Function and a Match, if the class leaves their method as it is, or is made with `scopes_first=True`;
      else the method visits.
    - Of a Let, if the class leaves `visit_let` as it is: the value, then `pre_visit_let(let)` is called, then the body
      is visited, then `post_visit_let(let)` gives the result. (TVM's `ExpandANormalForm`.)

    Both options hold for the subclasses as well, unless these say otherwise. A direct subclass of this class gives the
    methods as they are before anybody overrides them.
    """

    _defaults: ClassVar[Mapping[type[Expr], Callable[..., object]]] = {}
    _first: ClassVar[frozenset[type[Expr]]] = frozenset()
    _is_plain: ClassVar[bool] = True
    _operands_first: ClassVar[bool] = True
    _scopes_first: ClassVar[bool] = False

    def __init_subclass__(
        cls, operands_first: bool | None = None, scopes_first: bool | None = None, **options: object
    ) -> None:
        """Find out what is visited before its node."""
        super().__init_subclass__(**options)
        cls._operands_first = cls._operands_first if operands_first is None else operands_first
        cls._scopes_first = cls._scopes_first if scopes_first is None else scopes_first
        if DeepFunctor in cls.__bases__:
            cls._defaults = cls._methods
        left = {kind for kind, method in cls._methods.items() if method is cls._defaults[kind]}
        scoped = _SCOPED - {Let} | left if cls._scopes_first else left
        cls._first = _DATAFLOW | (_SCOPED & scoped) if cls._operands_first else frozenset()
        cls._is_plain = cls.visit is vars(DeepFunctor)["visit"]
        if Let in cls._first:
            cls._methods = {**cls._methods, Let: cls.post_visit_let}

    def __init__(self) -> None:
        """Start with an empty memo."""
        super().__init__()
        self._entered: set[Let] = set()

    def visit(self, expr: Expr) -> R:
        """Return the result for an expression, from the memo if it was visited before.

        A subclass that overrides this is called through it for every node.
        """
        memo = self.memo_map
        if expr in memo:
            return memo[expr]
        first = self._first
        calls_first = Call in first
        methods = cast("Mapping[type[Expr], Callable[..., R]]", self._methods)
        work: list[Expr | None] = [expr]  # None: what is below the last of `waiting` has been visited
        waiting: list[Expr] = []
        while work:
            node = work.pop()
            if node is None:
                node = waiting.pop()
                if type(node) is Let and self._enters(node):
                    waiting.append(node)
                    work += (None, node.body)
                    continue
            elif node in memo:
                continue
            elif type(node) is Call and calls_first:  # as below, faster: most nodes are calls
                waiting.append(node)
                work += (None, *node.args[::-1], node.op)
                continue
            elif type(node) in first:
                waiting.append(node)
                work += (None, *_below(node))
                continue
            visit = methods.get(type(node), _unhandled) if self._is_plain or node is expr else type(self).visit
            memo[node] = visit(self, node)
        return memo[expr]

    def pre_visit_let(self, let: Let) -> None:
        """Be told of a Let whose value has been visited and whose body has not."""

    def post_visit_let(self, let: Let) -> R:
        """Return the result for a Let whose value and body have been visited."""
        raise NotImplementedError

    def visit_let(self, let: Let) -> R:
        """Visit the value, then the body; for a method that overrides this and calls it."""
        self.visit(let.value)
        self.pre_visit_let(let)
        self.visit(let.body)
        return self.post_visit_let(let)

    def _enters(self, let: Let) -> bool:
        """Tell whether it is the first time, and call `pre_visit_let` then."""
        if let in self._entered:
            return False
        self._entered.add(let)
        self.pre_visit_let(let)
        return True


def _below(node: Expr) -> tuple[Expr, ...]:
    """Return what is visited before a node, the first last; of a Let what is visited before `pre_visit_let`."""
    return (node.value,) if isinstance(node, Let) else node.children[::-1]
