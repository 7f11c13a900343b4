"""`ScopeBuilder`: programs of Lets and Ifs, written statement by statement; TVM's `relay.ScopeBuilder`."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from apass.relay.expr import Expr, If, Let, Var
from apass.relay.make import var as make_var
from apass.relay.ty import IncompleteType, Type

__all__ = ["ScopeBuilder"]


class ScopeBuilder:
    """Builds an expression from bindings, a result, and branches that are written in `with` blocks.

    >>> from apass.relay.make import const, var
    >>> from apass.relay.op.elementwise.arithmetic import add
    >>> sb, x, cond = ScopeBuilder(), var("x"), var("cond", "bool")
    >>> with sb.if_scope(cond):
    ...     one = sb.let("one", const(1.0))
    ...     sb.ret(add(x, one))
    >>> with sb.else_scope():
    ...     sb.ret(x)
    >>> sb.get().true_branch
    <relay.Let>
    """

    def __init__(self) -> None:
        self._scopes = [_Scope()]

    def let(self, var: Var | str | Sequence[object], value: Expr) -> Var:
        """Bind a value from here on, and return the variable.

        `var` is a variable, the name of a new one, or the name and the type of a new one.

        Raises:
            ValueError: if it is none of these.

        """
        made = _variable(var)
        self._scopes[-1].bindings.append((made, value))
        return made

    @contextmanager
    def if_scope(self, cond: Expr) -> Generator[None]:
        """Write the result that there is if a condition holds; an `else_scope` must follow.

        Raises:
            RuntimeError: if the scope around it has its result already.

        """
        outer = self._scopes[-1]
        outer.check_open()
        with self._inner() as inner:
            yield
        outer.branch = (cond, inner.close())

    @contextmanager
    def else_scope(self) -> Generator[None]:
        """Write the result that there is if the condition of the `if_scope` before does not hold.

        Raises:
            RuntimeError: if there was no `if_scope` before.

        """
        outer = self._scopes[-1]
        if outer.branch is None:
            raise RuntimeError("an else_scope must follow an if_scope in the same scope")
        with self._inner() as inner:
            yield
        outer.result = If(*outer.branch, inner.close())
        outer.branch = None

    def type_of(self, expr: Expr) -> Type | None:
        """Return the type of a variable, or a type that inference finds to be that of the expression."""
        if isinstance(expr, Var):
            return expr.type_annotation
        unknown = IncompleteType()
        self.let(Var("unify", unknown), expr)
        return unknown

    def ret(self, value: Expr) -> None:
        """Set the result of the scope.

        Raises:
            RuntimeError: if it has one.

        """
        scope = self._scopes[-1]
        scope.check_open()
        scope.result = value

    def get(self) -> Expr:
        """Return the expression.

        Raises:
            RuntimeError: within an `if_scope` or an `else_scope`, or if there is no result.

        """
        if len(self._scopes) > 1:
            raise RuntimeError("get() must be called outside of every if_scope and else_scope")
        return self._scopes[0].close()

    @contextmanager
    def _inner(self) -> "Generator[_Scope]":
        inner = _Scope()
        self._scopes.append(inner)
        try:
            yield inner
        finally:
            self._scopes.pop()


class _Scope:
    """What has been written in one scope."""

    def __init__(self) -> None:
        self.bindings: list[tuple[Var, Expr]] = []
        self.result: Expr | None = None
        self.branch: tuple[Expr, Expr] | None = None

    def check_open(self) -> None:
        if self.result is not None:
            raise RuntimeError("the scope has its result already; nothing can follow ret() or an else_scope")
        if self.branch is not None:
            raise RuntimeError("an if_scope must be followed by its else_scope")

    def close(self) -> Expr:
        if self.branch is not None:
            raise RuntimeError("an if_scope must be followed by its else_scope")
        if self.result is None:
            raise RuntimeError("the scope has no result; set it with ret()")
        result = self.result
        for var, value in reversed(self.bindings):
            result = Let(var, value, result)
        return result


def _variable(given: Var | str | Sequence[object]) -> Var:
    if isinstance(given, Var):
        return given
    if isinstance(given, str):
        return make_var(given)
    name, ty = given if len(given) == 2 else (None, None)
    if not isinstance(name, str) or not isinstance(ty, Type | str):
        raise ValueError(f"a Let binds a variable, a name, or a name with a type; not {given!r}")
    return make_var(name, ty)
