"""`attrs_fault`: checks the types of the attributes of a call."""

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import get_type_hints

from apass.relay.errors import shortened
from apass.relay.ir.attrs import Attrs, DictAttrs
from apass.relay.ir.expr import Op
from apass.relay.ir.field_types import Check, check_of, title_of

__all__ = ["attrs_fault"]


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
def _checks(op: Op) -> Sequence[tuple[str, str, Check]]:
    """Return the name, the annotation and the check of each attribute of an operator."""
    if op.attrs_type is None or issubclass(op.attrs_type, DictAttrs):
        return ()
    hints = get_type_hints(op.attrs_type)
    annotations = [(field.name, hints[field.name]) for field in fields(op.attrs_type)]
    return [(name, title_of(hint), check_of(hint)) for name, hint in annotations]
