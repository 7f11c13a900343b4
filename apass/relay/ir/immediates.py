"""`IntImm`: the integers in types and attributes, and the names of element types."""

from typing import Annotated, Final, TypeAlias, cast

from apass.relay.ir.base import Node

__all__ = ["IntImm", "Integer", "immediate", "normal_dtype"]

_DTYPES: Final = {"int": "int32", "uint": "uint32", "float": "float32", "uint1": "bool", "bfloat": "bfloat16"}


class IntImm(int, Node):
    """An integer in the shape of a type or in an attribute.

    It is an `int` with TVM's `value` and `dtype`. It equals the plain int, and has the same hash and text. Arithmetic
    returns plain ints.

    >>> dim = IntImm(10)
    >>> dim, dim == 10, dim.value, dim.dtype
    (10, True, 10, 'int32')
    """

    __slots__ = ()

    @property
    def value(self) -> int:
        """The plain int."""
        return int(self)

    @property
    def dtype(self) -> str:
        """The element type: `int32`, or `int64` if the value needs it."""
        return "int32" if -(2**31) <= self < 2**31 else "int64"


Integer: TypeAlias = Annotated[int, IntImm]
"""The annotation of an attribute with TVM's type `Integer`. Its value becomes an `IntImm`."""


def immediate(value: object) -> object:
    """Return a value with plain ints converted to `IntImm`.

    The ints in tuples and in tuples of tuples are converted too.
    """
    if type(value) is int:
        return IntImm(value)
    if type(value) is not tuple:
        return value
    items = cast("tuple[object, ...]", value)
    return tuple([IntImm(item) if type(item) is int else _inner(item) for item in items])


def _inner(item: object) -> object:
    if type(item) is not tuple:
        return item
    # Deeper tuples remain as they are, so that the depth of a value does not matter.
    return tuple([IntImm(part) if type(part) is int else part for part in cast("tuple[object, ...]", item)])


def normal_dtype(name: str) -> str:
    """Return the canonical name of an element type.

    A name without a size has 32 bits, as in TVM.

    >>> normal_dtype("int"), normal_dtype("uint1"), normal_dtype("int64")
    ('int32', 'bool', 'int64')
    """
    return _DTYPES.get(name, name)
