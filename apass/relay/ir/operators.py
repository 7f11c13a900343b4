"""`Operators`: Python operators that build calls of Relay operators."""

from typing import Generic, NoReturn, TypeVar

__all__ = ["Operators"]

CallT = TypeVar("CallT")


class Operators(Generic[CallT]):
    """Base of expressions: `-x`, `x + y`, `x < y` and so on return calls."""

    __slots__ = ()

    def _call_op(self, name: str, *args: object) -> CallT:
        """Return a call of an operator. The subclass must override it."""
        raise NotImplementedError(f"{type(self).__name__} must define _call_op to call {name}")

    def __neg__(self) -> CallT:
        return self._call_op("negative", self)

    def __add__(self, other: object) -> CallT:
        return self._call_op("add", self, other)

    def __sub__(self, other: object) -> CallT:
        return self._call_op("subtract", self, other)

    def __mul__(self, other: object) -> CallT:
        return self._call_op("multiply", self, other)

    def __truediv__(self, other: object) -> CallT:
        return self._call_op("divide", self, other)

    def __lt__(self, other: object) -> CallT:
        return self._call_op("less", self, other)

    def __gt__(self, other: object) -> CallT:
        return self._call_op("greater", self, other)

    def __le__(self, other: object) -> CallT:
        return self._call_op("less_equal", self, other)

    def __ge__(self, other: object) -> CallT:
        return self._call_op("greater_equal", self, other)

    def __radd__(self, other: object) -> NoReturn:
        _refuse(other)

    def __rsub__(self, other: object) -> NoReturn:
        _refuse(other)

    def __rmul__(self, other: object) -> NoReturn:
        _refuse(other)

    def __rtruediv__(self, other: object) -> NoReturn:
        _refuse(other)


def _refuse(other: object) -> NoReturn:
    raise TypeError(f"operand must be an expression, got {other!r}; make a constant with relay.const({other!r})")
