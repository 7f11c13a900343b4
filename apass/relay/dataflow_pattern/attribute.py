"""`has_attribute`: whether an expression has an attribute, for `has_attr` of patterns."""

from typing import Final

from apass.relay.expr import Call, Expr, Op
from apass.relay.function import Function
from apass.relay.ir.attrs import Attrs
from apass.relay.structural.equality import structural_equal

__all__ = ["has_attribute"]

_MISSING: Final = object()
_SCALARS: Final = (int, float, str)


def has_attribute(expr: Expr, name: str, value: object) -> bool:
    """Tell whether a call, a function or an operator has an attribute of a name and value."""
    found = _attribute(expr, name)
    if isinstance(found, _SCALARS) and isinstance(value, _SCALARS):
        return found == value
    return found is not _MISSING and structural_equal(found, value)


def _attribute(expr: Expr, name: str) -> object:
    if isinstance(expr, Op):
        return expr.get_attr(name, _MISSING)
    attrs: Attrs | None = expr.attrs if isinstance(expr, Call | Function) else None
    return _MISSING if attrs is None else dict(attrs.items()).get(name, _MISSING)
