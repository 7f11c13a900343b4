"""`ScopeBuilder`: builds Lets and Ifs one statement at a time, as in TVM."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from apass.relay.ir.expr import Expr, If, Let, Var
from apass.relay.ir.expr import var as make_var
from apass.relay.ir.ty import IncompleteType, Type

__all__ = ["ScopeBuilder"]


class ScopeBuilder:
    """Builder of an expression from bindings, a result, and branches in `with` blocks.

    >>> from apass.relay.ir.expr import const, var
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
        self._scopes = [_BranchScope()]

    def let(self, var: Var | str | Sequence[object], value: Expr) -> Var:
        """Bind a value in the rest of the scope, and return the variable.

        `var` is a variable, or the name of a new variable, or a name and a type.

        Raises:
            ValueError: if `var` is none of these.

        """
        variable = _variable(var)
        self._scopes[-1].bindings.append((variable, value))
        return variable

    @contextmanager
    def if_scope(self, cond: Expr) -> Generator[None]:
        """Open the scope of the result if a condition is true.

        An `else_scope` must follow.

        Raises:
            RuntimeError: if the enclosing scope already has a result.

        """
        outer = self._scopes[-1]
        outer.check_open()
        with self._inner() as inner:
            yield
        outer.branch = (cond, inner.close())

    @contextmanager
    def else_scope(self) -> Generator[None]:
        """Open the scope of the result if the preceding condition is false.

        Raises:
            RuntimeError: if no `if_scope` precedes it.

        """
        outer = self._scopes[-1]
        if outer.branch is None:
            raise RuntimeError("an else_scope must follow an if_scope in the same scope")
        with self._inner() as inner:
            yield
        outer.result = If(*outer.branch, inner.close())
        outer.branch = None

    def type_of(self, expr: Expr) -> Type | None:
        """Return the type of a variable, or an unknown type for any other expression."""
        if isinstance(expr, Var):
            return expr.type_annotation
        # The binding makes type inference unify the unknown type with the type of the expression.
        unknown = IncompleteType()
        self.let(Var("unify", unknown), expr)
        return unknown

    def ret(self, value: Expr) -> None:
        """Set the result of the scope.

        Raises:
            RuntimeError: if the scope already has a result.

        """
        scope = self._scopes[-1]
        scope.check_open()
        scope.result = value

    def get(self) -> Expr:
        """Return the built expression.

        Raises:
            RuntimeError: if called in an `if_scope` or `else_scope`, or if no result is set.

        """
        if len(self._scopes) > 1:
            raise RuntimeError("get() must be called outside of every if_scope and else_scope")
        return self._scopes[0].close()

    @contextmanager
    def _inner(self) -> "Generator[_BranchScope]":
        inner = _BranchScope()
        self._scopes.append(inner)
        try:
            yield inner
        finally:
            self._scopes.pop()


class _BranchScope:
    """The bindings, result and pending branch of a scope."""

    def __init__(self) -> None:
        self.bindings: list[tuple[Var, Expr]] = []
        self.result: Expr | None = None
        self.branch: tuple[Expr, Expr] | None = None

    def check_open(self) -> None:
        if self.result is not None:
            raise RuntimeError("the scope already has a result; nothing can follow ret() or an else_scope")
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


def _variable(value: Var | str | Sequence[object]) -> Var:
    if isinstance(value, Var):
        return value
    if isinstance(value, str):
        return make_var(value)
    name, ty = value if len(value) == 2 else (None, None)
    if not isinstance(name, str) or not isinstance(ty, Type | str):
        raise ValueError(f"var must be a Var, a name, or a name and a type, got {value!r}")
    return make_var(name, ty)
