"""`TupleWrapper`: what an operator's function returns if the operator has several results."""

from collections.abc import Iterator

from apass.relay.ir.expr import Expr, TupleGetItem

__all__ = ["TupleWrapper"]


class TupleWrapper:
    """An expression whose value is a tuple of a known size, so that Python can unpack it.

    It is not an expression itself: `astuple()` gives that.

    >>> from apass.relay.ir.expr import Var
    >>> first, second = TupleWrapper(Var("pair"), 2)
    >>> second.index
    1
    """

    __slots__ = ("_size", "_tuple_value")
    _tuple_value: Expr
    _size: int

    def __init__(self, tuple_value: Expr, size: int) -> None:
        self._tuple_value = tuple_value
        self._size = size

    @property
    def tuple_value(self) -> Expr:
        """The expression whose value is the tuple."""
        return self._tuple_value

    @property
    def size(self) -> int:
        """The number of fields."""
        return self._size

    def astuple(self) -> Expr:
        """Return the expression whose value is the tuple."""
        return self._tuple_value

    def astext(self) -> str:
        """Return the text of the expression."""
        return str(self._tuple_value)

    def __getitem__(self, index: int) -> TupleGetItem:
        """Return a field.

        Raises:
            IndexError: if there is no such field.

        """
        if not 0 <= index < self._size:
            raise IndexError(
                f"there is no field {index} in a tuple of {self._size}; give one from 0 to {self._size - 1}"
            )
        return TupleGetItem(self._tuple_value, index)

    def __iter__(self) -> Iterator[TupleGetItem]:
        """Go over the fields."""
        return map(self.__getitem__, range(self._size))

    def __len__(self) -> int:
        """Return the number of fields."""
        return self._size

    def __repr__(self) -> str:
        """Return how it is made."""
        return f"TupleWrapper({self._tuple_value!r}, {self._size})"
