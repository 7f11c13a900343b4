"""Printing of attributes of calls and functions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Expr, GlobalVar, Op
from apass.relay.ir.ty import Any, Type
from apass.relay.ir.type_keys import attrs_key
from apass.relay.text.literals import float_text, key_text, string_text
from apass.relay.text.metadata import MetadataWriter

__all__ = ["AttrsText"]


class AttrsText:
    """Printer of attributes as `key=value`."""

    def __init__(self, meta: MetadataWriter, show_meta_data: bool) -> None:
        self._meta = meta
        self._show_meta_data = show_meta_data

    def of_call(self, attrs: Attrs, callee: Expr) -> Iterator[str]:
        """Iterate over the texts of the non-default attributes of a call.

        The parser must be able to restore the class of the attributes:

        - If the callee is an operator with another attributes class, the attributes go into the metadata as a whole.
        - If the callee is not an operator, the text includes the type key of the class.
        """
        if not isinstance(callee, Op):
            yield from self.of_items(attrs.non_default())
            yield f"attrs_type_key={string_text(attrs_key(type(attrs)))}"
        elif self._show_meta_data and type(attrs) is not callee.attrs_type:
            yield self._meta.reference(attrs)
        else:
            yield from self.of_items(attrs.non_default())

    def of_items(self, items: Iterable[tuple[str, object]]) -> Iterator[str]:
        """Iterate over the texts of names and values."""
        return (f"{key_text(name)}={self.value(value)}" for name, value in items)

    def value(self, value: object) -> str:
        """Return the text of a value, or a metadata reference if it has no inline text."""
        if isinstance(value, np.generic):
            return self.value(cast("object", value.item()))
        if value is None or isinstance(value, bool | Any):
            return str(value)
        if isinstance(value, int):
            return str(int(value))
        if isinstance(value, float):
            return f"{float_text(value)}f"
        if isinstance(value, str):
            return string_text(value)
        if isinstance(value, Sequence):
            return f"[{', '.join(map(self.value, cast('Sequence[object]', value)))}]"
        return self._meta.reference(value) if self._show_meta_data else self._without_metadata(value)

    def _without_metadata(self, value: object) -> str:
        if isinstance(value, Mapping):
            entries = cast("Mapping[object, object]", value)
            return f"{{{', '.join(f'{self.value(name)}={self.value(entry)}' for name, entry in entries.items())}}}"
        if isinstance(value, Attrs):
            return f"{{{', '.join(self.of_items(value.non_default()))}}}"
        if isinstance(value, GlobalVar):
            return f"'{value.name_hint}'"
        return str(value) if isinstance(value, Type) else repr(value)
