"""`has_attribute`: the attribute check behind the patterns' `has_attr`."""

from typing import Final

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr, Op
from apass.relay.ir.function import Function
from apass.relay.structural.equality import structural_equal

__all__ = ["has_attribute"]

_MISSING: Final = object()
_SCALARS: Final = (int, float, str)


def has_attribute(expr: Expr, name: str, value: object) -> bool:
    """Return whether a call, a function or an operator has an attribute of this value."""
    attribute = _attribute(expr, name)
    if isinstance(attribute, _SCALARS) and isinstance(value, _SCALARS):
        return attribute == value
    return attribute is not _MISSING and structural_equal(attribute, value)


def _attribute(expr: Expr, name: str) -> object:
    if isinstance(expr, Op):
        return expr.get_attr(name, _MISSING)
    attrs: Attrs | None = expr.attrs if isinstance(expr, Call | Function) else None
    return _MISSING if attrs is None else dict(attrs.items()).get(name, _MISSING)
