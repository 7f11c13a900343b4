"""The metadata section, in TVM's JSON: objects named `meta[type_key][index]`."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from apass.errors import ApassError
from apass.relay.errors import SerializationError
from apass.relay.ir.json_format import set_json_format
from apass.relay.text.limits import DEFAULT_LIMITS, TextLimits
from apass.relay.text.serialization.load import load_json
from apass.relay.text.serialization.save import document, save_json, type_key_of

__all__ = ["MetaTable", "MetadataError", "MetadataWriter", "read_metadata"]

MetaTable: TypeAlias = Mapping[str, Sequence[object]]
"""The objects that `meta[type_key][index]` refers to."""


class MetadataError(ApassError, ValueError):
    """The metadata section is invalid, or a value cannot be written into it."""


class MetadataWriter:
    """Collects the objects that a text refers to."""

    def __init__(self) -> None:
        self._refs: dict[int, str] = {}
        self._groups: dict[str, list[object]] = {}

    def __bool__(self) -> bool:
        """Return whether the text refers to any object."""
        return bool(self._groups)

    def reference(self, value: object) -> str:
        """Return the reference to a value, the same for each use of the same object.

        Raises:
            MetadataError: if the value cannot be represented.

        """
        key = id(value)  # `_groups` keeps the value alive, so its id is not reused
        if key not in self._refs:
            try:
                type_key = type_key_of(value)
            except SerializationError as error:
                raise MetadataError(str(error)) from None
            group = self._groups.setdefault(type_key, [])
            self._refs[key] = f"meta[{type_key}][{len(group)}]"
            group.append(value)
        return self._refs[key]

    def section(self) -> str:
        """Return the text of the section.

        Raises:
            MetadataError: if a value cannot be represented.

        """
        try:
            return document(self._groups, with_spans=False)
        except SerializationError as error:
            raise MetadataError(str(error)) from None


def read_metadata(text: str, limits: TextLimits = DEFAULT_LIMITS) -> MetaTable:
    """Return the objects of a metadata section.

    Raises:
        MetadataError: if the section is not JSON in TVM's format, contains an unsupported object, or exceeds a limit.

    """
    try:
        table = load_json(text, limits)
    except SerializationError as error:
        raise MetadataError(f"the metadata is invalid: {error}") from None
    if not isinstance(table, dict):
        raise MetadataError(f"the root of the metadata must be a table, got a {type(table).__name__}")
    entries = cast("dict[object, object]", table)
    return {str(key): cast("tuple[object, ...]", entry) for key, entry in entries.items() if isinstance(entry, tuple)}


set_json_format(save_json, load_json)
