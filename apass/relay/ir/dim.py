"""Symbolic dimensions of tensors: `Any`, `ShapeVar`, and arithmetic on them.

Arithmetic with `Any` gives `Any`. Arithmetic with variables gives a `DimExpr`: a sum of products in a normal form, so
that `n + 1 - 1` is `n`, and equal sums are equal. TVM has expressions of `tir` in their place, and a simplifier.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from apass.relay.ir.base import Node

__all__ = ["Any", "Dim", "DimExpr", "Quotient", "ShapeVar", "SizeVar", "SymbolicDim"]

_MOST_TERMS: Final = 64
"""Number of terms after which a sum becomes `Any`."""
_LARGEST: Final = 256
"""Number of factors, also those in quotients, after which a sum becomes `Any`."""
_DEEPEST: Final = 32
"""Nesting of quotients after which a dimension becomes `Any`."""
_LIMIT: Final = 2**63
"""Coefficient or divisor from which on a sum becomes `Any`: no dimension is that large."""


class SymbolicDim(Node):
    """Base of dimensions that are not numbers, with arithmetic on them.

    Operands are ints and symbolic dimensions. As in TVM, `//` rounds down.

    >>> n = ShapeVar("n")
    >>> print(n + 1, 2 * (n + 1) - n, (n + 6) // 4, n * 0)
    n + 1 n + 2 (n + 2)//4 + 1 0
    """

    __slots__ = ()

    def __add__(self, other: "Dim") -> "Dim":
        return _combined(_sum, self, other)

    def __radd__(self, other: "Dim") -> "Dim":
        return _combined(_sum, other, self)

    def __sub__(self, other: "Dim") -> "Dim":
        return self + -1 * other

    def __rsub__(self, other: "Dim") -> "Dim":
        return other + -1 * self

    def __mul__(self, other: "Dim") -> "Dim":
        return _combined(_product, self, other)

    def __rmul__(self, other: "Dim") -> "Dim":
        return _combined(_product, other, self)

    def __floordiv__(self, other: "Dim") -> "Dim":
        return _combined(_quotient, self, other)

    def __rfloordiv__(self, other: "Dim") -> "Dim":
        return _combined(_quotient, other, self)

    def __mod__(self, other: "Dim") -> "Dim":
        return self - self // other * other

    def __rmod__(self, other: "Dim") -> "Dim":
        return other - other // self * self

    def __neg__(self) -> "Dim":
        return -1 * self


@dataclass(frozen=True, slots=True)
class Any(SymbolicDim):
    """A dimension known only at run time, printed as `?`. All `Any()` are equal."""

    @property
    def dtype(self) -> str:
        """The element type of the dimension as a number: always `int32`."""
        return "int32"

    def __str__(self) -> str:
        """Return Relay's text."""
        return "?"


@dataclass(frozen=True, slots=True, eq=False)
class ShapeVar(SymbolicDim):
    """A named symbolic dimension, such as the batch size. Equal only to itself.

    It is TVM's `te.var`.
    """

    name: str
    """The printed name."""
    dtype: str = field(default="int32", repr=False)
    """The element type of the dimension as a number."""

    def __str__(self) -> str:
        """Return Relay's text."""
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class SizeVar(ShapeVar):
    """A named symbolic dimension that is not negative: TVM's `te.size_var`.

    The types of programs treat it like a `ShapeVar`: no dimension is negative.
    """


@dataclass(frozen=True, slots=True)
class Quotient:
    """A quotient that is rounded down, as a factor of a product."""

    dividend: "Dim"
    """The dimension that is divided."""
    divisor: "Dim"
    """The dimension or number that it is divided by."""

    def __str__(self) -> str:
        """Return `dividend//divisor`."""
        dims = [f"({dim})" if isinstance(dim, DimExpr) else str(dim) for dim in (self.dividend, self.divisor)]
        return "//".join(dims)

    @property
    def depth(self) -> int:
        """The nesting of quotients."""
        return 1 + max(_depth_of(self.dividend), _depth_of(self.divisor))

    @property
    def size(self) -> int:
        """The number of variables and quotients in it, and 1."""
        return 1 + _size_of(self.dividend) + _size_of(self.divisor)


Factor: TypeAlias = "ShapeVar | Quotient"
Monomial: TypeAlias = "frozenset[tuple[Factor, int]]"
"""A product of powers."""

_ONE: Final[Monomial] = frozenset()


class DimExpr(SymbolicDim):
    """A sum of products of variables and quotients, with integer coefficients.

    Two are equal if they have the same terms. Arithmetic creates them; a sum that is a number or a single variable is
    that number or variable.
    """

    __slots__ = ("_depth", "_hash", "_size", "_terms")
    _terms: Mapping[Monomial, int]
    _hash: int
    _depth: int
    _size: int

    def __init__(self, terms: Iterable[tuple[Monomial, int]]) -> None:
        object.__setattr__(self, "_terms", dict(terms))
        # Computed once: those of a nested quotient would otherwise take time for each level.
        factors = [item for monomial in self._terms for item in monomial]
        quotients = [(factor, power) for factor, power in factors if isinstance(factor, Quotient)]
        object.__setattr__(self, "_hash", hash(frozenset(self._terms.items())))
        object.__setattr__(self, "_depth", max((quotient.depth for quotient, _ in quotients), default=0))
        inner = sum(power * (quotient.size - 1) for quotient, power in quotients)
        object.__setattr__(self, "_size", inner + sum(power for _, power in factors))

    @property
    def terms(self) -> Mapping[Monomial, int]:
        """The coefficients of the products; the empty product is 1."""
        return self._terms

    @property
    def depth(self) -> int:
        """The nesting of quotients."""
        return self._depth

    @property
    def size(self) -> int:
        """The number of variables and quotients, also of those in quotients."""
        return self._size

    def variables(self) -> Iterator[ShapeVar]:
        """Iterate over the variables, also those in quotients.

        A variable may occur several times.
        """
        for monomial in self._terms:
            for factor, _ in monomial:
                dims = (factor.dividend, factor.divisor) if isinstance(factor, Quotient) else (factor,)
                for dim in dims:
                    if isinstance(dim, ShapeVar):
                        yield dim
                    elif isinstance(dim, DimExpr):
                        yield from dim.variables()

    def replaced(self, dims: Mapping[ShapeVar, "Dim"]) -> "Dim":
        """Return the dimension with variables replaced by other dimensions."""

        def value(dim: "Dim") -> "Dim":
            if isinstance(dim, DimExpr):
                return dim.replaced(dims)
            return dims.get(dim, dim) if isinstance(dim, ShapeVar) else dim

        total: Dim = 0
        for monomial, coefficient in self._terms.items():
            product: Dim = coefficient
            for factor, power in monomial:
                base = (
                    value(factor.dividend) // value(factor.divisor) if isinstance(factor, Quotient) else value(factor)
                )
                for _ in range(power):
                    product = product * base
            total = total + product
        return total

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same terms."""
        if not isinstance(other, DimExpr):
            return NotImplemented
        return self is other or (self._hash == other._hash and self._terms == other._terms)

    def __hash__(self) -> int:
        return self._hash

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot assign to {name!r}: a dimension does not change")

    def __reduce__(self) -> tuple[type["DimExpr"], tuple[list[tuple[Monomial, int]]]]:
        """Return the terms. The hash of a variable is valid only in its process."""
        return DimExpr, (list(self._terms.items()),)

    def __str__(self) -> str:
        """Return the sum, such as `2*n + 1`."""
        texts: list[str] = []
        for monomial, coefficient in self._terms.items():
            # A set has no order, so sort the factors.
            factors = sorted(str(factor) for factor, power in monomial for _ in range(power))
            size = abs(coefficient)
            factors = factors if size == 1 and factors else [str(size), *factors]
            if len(factors) > 1:
                factors = [f"({factor})" if "//" in factor else factor for factor in factors]
            text = "*".join(factors)
            sign = "-" if coefficient < 0 else "+"
            texts.append(f"{sign} {text}" if texts else text if coefficient > 0 else f"-{text}")
        return " ".join(texts)

    def __repr__(self) -> str:
        return f"<relay.DimExpr {self}>"


Dim: TypeAlias = int | Any | ShapeVar | DimExpr
"""A dimension of a tensor."""


def _combined(operation: Callable[[Dim, Dim], Dim], a: object, b: object) -> Dim:
    """Return an operation on two dimensions, or NotImplemented for other operands."""
    if not isinstance(a, Dim) or not isinstance(b, Dim):
        not_implemented: Dim = NotImplemented
        return not_implemented
    if isinstance(a, Any) or isinstance(b, Any):
        return Any()
    return operation(a, b)


def _terms_of(dim: Dim) -> Mapping[Monomial, int]:
    if isinstance(dim, DimExpr):
        return dim.terms
    if isinstance(dim, ShapeVar):
        return {frozenset([(dim, 1)]): 1}
    assert isinstance(dim, int), "an operand that is Any makes the result Any"
    return {_ONE: dim}


def _depth_of(dim: Dim) -> int:
    return dim.depth if isinstance(dim, DimExpr) else 0


def _size_of(dim: Dim) -> int:
    return dim.size if isinstance(dim, DimExpr) else 1


def _dim(terms: Mapping[Monomial, int]) -> Dim:
    """Return the simplest dimension for a sum; constants come last."""
    left = {monomial: coefficient for monomial, coefficient in terms.items() if coefficient and monomial != _ONE}
    constant = terms.get(_ONE, 0)
    if not left:
        return constant
    if len(left) == 1 and not constant:
        ((monomial, coefficient),) = left.items()
        ((factor, power), *others) = monomial
        if coefficient == power == 1 and not others and isinstance(factor, ShapeVar):
            return factor
    if constant:
        left[_ONE] = constant
    expr = DimExpr(left.items())
    largest = max(map(abs, left.values()))
    is_small = len(left) <= _MOST_TERMS and expr.size <= _LARGEST and expr.depth <= _DEEPEST and largest < _LIMIT
    return expr if is_small else Any()


def _sum(a: Dim, b: Dim) -> Dim:
    total = dict(_terms_of(a))
    for monomial, coefficient in _terms_of(b).items():
        total[monomial] = total.get(monomial, 0) + coefficient
    return _dim(total)


def _product(a: Dim, b: Dim) -> Dim:
    total: dict[Monomial, int] = {}
    for left, first in _terms_of(a).items():
        for right, second in _terms_of(b).items():
            powers = dict(left)
            for factor, power in right:
                powers[factor] = powers.get(factor, 0) + power
            monomial = frozenset(powers.items())
            total[monomial] = total.get(monomial, 0) + first * second
    return _dim(total)


def _quotient(a: Dim, b: Dim) -> Dim:
    if a == b:
        return 1
    if not isinstance(b, int):
        return _symbolic_quotient(a, b)
    if b == 0:
        raise ZeroDivisionError(f"the dimension {a} is divided by 0")
    # Terms with a multiple of the divisor leave the quotient, and of the constant only the rest stays.
    terms = _terms_of(a)
    whole = {monomial: coefficient // b for monomial, coefficient in terms.items() if coefficient % b == 0}
    rest = {monomial: coefficient for monomial, coefficient in terms.items() if coefficient % b}
    if _ONE in rest:
        whole[_ONE], rest[_ONE] = divmod(rest[_ONE], b)
    if not rest.keys() - {_ONE}:
        return _dim(whole)
    return _dim(whole) + _fraction(*_flattened(rest, b))


def _symbolic_quotient(a: Dim, b: Dim) -> Dim:
    """Return the quotient by a symbolic dimension.

    It is exact if the divisor is a factor of every term.
    """
    terms = _terms_of(b)
    if len(terms) == 1:
        ((divisor, scale),) = terms.items()
        powers = dict(divisor)
        exact: dict[Monomial, int] = {}
        for monomial, coefficient in _terms_of(a).items():
            left = {factor: power - powers.get(factor, 0) for factor, power in monomial}
            if powers.keys() - left.keys() or min(left.values(), default=0) < 0 or coefficient % scale:
                break
            product = frozenset((factor, power) for factor, power in left.items() if power)
            exact[product] = exact.get(product, 0) + coefficient // scale
        else:
            return _dim(exact)
    return _fraction(a, b)


def _fraction(dividend: Dim, divisor: Dim) -> Dim:
    if isinstance(dividend, Any) or (isinstance(divisor, int) and abs(divisor) >= _LIMIT):
        return Any()
    return _dim({frozenset([(Quotient(dividend, divisor), 1)]): 1})


def _flattened(terms: Mapping[Monomial, int], divisor: int) -> tuple[Dim, int]:
    """Return a dividend and a divisor, with one quotient in place of two nested ones.

    For a positive `a`, `(x // a + b) // c` is `(x + a * b) // (a * c)`. This keeps chains of strided convolutions flat.
    """
    products = [monomial for monomial in terms if monomial != _ONE]
    if len(products) == 1 and terms[products[0]] == 1 and divisor > 0:
        ((factor, power), *others) = products[0]
        if isinstance(factor, Quotient) and power == 1 and not others and isinstance(factor.divisor, int):
            inner = factor.divisor
            if inner > 0:
                return _sum(factor.dividend, inner * terms.get(_ONE, 0)), inner * divisor
    return _dim(terms), divisor
