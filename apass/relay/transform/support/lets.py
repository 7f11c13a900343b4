"""`Lets`: the bindings of a block of the residual program, TVM's `LetList`."""

from apass.relay.ir.expr import Expr, Let, Var

__all__ = ["Lets"]


class Lets:
    """The bindings of a block in order."""

    __slots__ = ("_bindings",)

    def __init__(self) -> None:
        self._bindings: list[tuple[Var, Expr]] = []

    def push(self, value: Expr, var: Var | None = None) -> Var:
        """Bind a value to a variable, by default a new one, and return the variable."""
        bound = Var("x") if var is None else var
        self._bindings.append((bound, value))
        return bound

    def close(self, body: Expr) -> Expr:
        """Return an expression with the bindings around it."""
        for var, value in reversed(self._bindings):
            body = Let(var, value, body, span=value.span)
        return body
