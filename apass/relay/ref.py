"""References: mutable cells, created, read and written."""

from dataclasses import dataclass

from apass.relay.ir.expr import Expr

__all__ = ["RefCreate", "RefRead", "RefWrite"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RefCreate(Expr):
    """A new mutable cell."""

    value: Expr
    """What it holds at first."""

    @property
    def children(self) -> tuple[Expr, ...]:
        """The first value."""
        return (self.value,)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RefRead(Expr):
    """What a cell holds."""

    ref: Expr
    """The cell."""

    @property
    def children(self) -> tuple[Expr, ...]:
        """The cell."""
        return (self.ref,)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RefWrite(Expr):
    """A change of what a cell holds; its own value is the empty tuple."""

    ref: Expr
    """The cell."""
    value: Expr
    """What it holds from then on."""

    @property
    def children(self) -> tuple[Expr, ...]:
        """The cell and the value."""
        return (self.ref, self.value)
