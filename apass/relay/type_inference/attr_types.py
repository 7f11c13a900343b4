"""`attrs_fault`: checks the types of the attributes of a call."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Final, SupportsFloat, SupportsIndex, cast, get_args, get_origin, get_type_hints

from apass.relay.errors import shortened
from apass.relay.ir.attrs import Attrs, DictAttrs
from apass.relay.ir.expr import Op
from apass.relay.ir.ty import Any, DimExpr, ShapeVar

__all__ = ["attrs_fault"]

_Check = Callable[[object], bool]


def attrs_fault(attrs: Attrs, op: Op) -> str | None:
    """Return what is wrong with the types of the attributes of a call, or None.

    The parser accepts any value for any attribute. Type relations and kernels rely on the annotated types.
    """
    if op.attrs_type is not None and not isinstance(attrs, op.attrs_type):
        return f"the attributes must be {op.attrs_type.__name__}, got {type(attrs).__name__}"
    for name, annotation, check in _checks(op):
        value: object = getattr(attrs, name)
        if not check(value):
            return f"the attribute {name} must be {annotation}, got {shortened(repr(value), 100)}"
    return None


@cache
def _checks(op: Op) -> Sequence[tuple[str, str, _Check]]:
    """Return the name, the annotation and the check of each attribute of an operator."""
    if op.attrs_type is None or issubclass(op.attrs_type, DictAttrs):
        return ()
    hints = get_type_hints(op.attrs_type)
    annotations = [(field.name, hints[field.name]) for field in fields(op.attrs_type)]
    return [(name, _title(hint), _check_of(hint)) for name, hint in annotations]


def _title(hint: object) -> str:
    return hint.__name__ if isinstance(hint, type) and get_origin(hint) is None else str(hint)


def _check_of(hint: object) -> _Check:
    if hint in _CHECKS:
        return _CHECKS[hint]
    args = get_args(hint)
    if get_origin(hint) is tuple and args[1:] == (...,):
        item = _check_of(args[0])
        return lambda value: _is_sequence(value) and all(map(item, cast("Sequence[object]", value)))
    if args and get_origin(hint) is not tuple:
        checks = [_check_of(arg) for arg in args]
        return lambda value: any(check(value) for check in checks)
    return lambda value: True  # a field of an operator that a user registered


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_int(value: object) -> bool:
    # A dimension may be symbolic. TVM writes a bool as an int, and the other way round.
    return isinstance(value, SupportsIndex | Any | ShapeVar | DimExpr)


def _is_float(value: object) -> bool:
    return isinstance(value, SupportsFloat) and not isinstance(value, str)


_CHECKS: Final[Mapping[object, _Check]] = {
    int: _is_int,
    bool: _is_int,
    float: _is_float,
    str: lambda value: isinstance(value, str),
    type(None): lambda value: value is None,
}
