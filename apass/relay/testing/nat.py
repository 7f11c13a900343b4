"""Natural numbers as an algebraic data type, and how they become Python's and back."""

from apass.relay.adt import Constructor
from apass.relay.errors import EvaluationError
from apass.relay.expr import Expr
from apass.relay.interpreter.values import ADTValue, Value
from apass.relay.prelude import Prelude

__all__ = ["add_nat_definitions", "count", "make_nat_expr", "make_nat_value"]


def add_nat_definitions(prelude: Prelude) -> None:
    """Add the data type `nat`, with `Z` and `S`, and the functions on it to the prelude's module.

    They are `nat_double`, `nat_add`, and `nat_nth`, `nat_update` and `nat_iterate`, which count with it.
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
    made = zero()
    for _ in range(_natural(n)):
        made = successor(made)
    return made


def make_nat_value(prelude: Prelude, n: int) -> ADTValue:
    """Return what the expression for a number evaluates to; ValueError if the number is negative."""
    zero, successor = _constructors(prelude)
    made = ADTValue(zero, ())
    for _ in range(_natural(n)):
        made = ADTValue(successor, (made,))
    return made


def count(prelude: Prelude, n: Value) -> int:
    """Return a value of the data type as a number of Python.

    Raises:
        EvaluationError: if it is none.

    """
    zero, successor = _constructors(prelude)
    found = 0
    while isinstance(n, ADTValue) and n.constructor is successor:
        (n,) = n.fields
        found += 1
    if not isinstance(n, ADTValue) or n.constructor is not zero:
        raise EvaluationError(f"{n!r} is no natural number of this module")
    return found


def _constructors(prelude: Prelude) -> tuple[Constructor, Constructor]:
    return prelude.get_ctor("nat", "Z"), prelude.get_ctor("nat", "S")


def _natural(n: int) -> int:
    if n < 0:
        raise ValueError(f"a natural number cannot be {n}")
    return n
