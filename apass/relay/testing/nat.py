"""Natural numbers as an algebraic data type, and conversion from and to `int`."""

from apass.relay.errors import EvaluationError
from apass.relay.interpreter.values import ADTValue, Value
from apass.relay.ir.adt import Constructor
from apass.relay.ir.expr import Expr
from apass.relay.prelude import Prelude

__all__ = ["add_nat_definitions", "count", "make_nat_expr", "make_nat_value"]


def add_nat_definitions(prelude: Prelude) -> None:
    """Add the data type `nat` and its functions to the prelude's module.

    The constructors are `Z` and `S`. The functions are `nat_double`, `nat_add`, `nat_nth`, `nat_update` and
    `nat_iterate`.
    """
    prelude.mod.import_from_std("nat.rly")


def make_nat_expr(prelude: Prelude, n: int) -> Expr:
    """Return an expression for a number.

    Raises:
        ValueError: if the number is negative.

    >>> prelude = Prelude()
    >>> add_nat_definitions(prelude)
    >>> print(make_nat_expr(prelude, 1))
    %0 = Z;
    S(%0)
    """
    zero, successor = _constructors(prelude)
    result = zero()
    for _ in range(_natural(n)):
        result = successor(result)
    return result


def make_nat_value(prelude: Prelude, n: int) -> ADTValue:
    """Return the value of the expression for a number.

    Raises:
        ValueError: if the number is negative.

    """
    zero, successor = _constructors(prelude)
    result = ADTValue(zero, ())
    for _ in range(_natural(n)):
        result = ADTValue(successor, (result,))
    return result


def count(prelude: Prelude, n: Value) -> int:
    """Return a value of the data type as an `int`.

    Raises:
        EvaluationError: if the value is not a natural number of the prelude's module.

    """
    zero, successor = _constructors(prelude)
    number = 0
    while isinstance(n, ADTValue) and n.constructor is successor:
        (n,) = n.fields
        number += 1
    if not isinstance(n, ADTValue) or n.constructor is not zero:
        raise EvaluationError(f"expected a natural number of this module, got {n!r}")
    return number


def _constructors(prelude: Prelude) -> tuple[Constructor, Constructor]:
    return prelude.get_ctor("nat", "Z"), prelude.get_ctor("nat", "S")


def _natural(n: int) -> int:
    if n < 0:
        raise ValueError(f"n must be zero or positive, got {n}")
    return n
