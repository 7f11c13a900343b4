"""Fingerprints of xDSL modules and functions."""

from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from io import StringIO
from typing import Final

from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.printer import Printer

from apass.adapters.xdsl.text import RESOURCE_DIALECTS

__all__ = ["fingerprint"]

SEPARATOR: Final = "\0"
"""Ends each item of a description; the text of an attribute escapes it."""


def fingerprint(op: Operation, *, exact: bool = False) -> str:
    """Return a text that is equal for operations with the same contents.

    It does not depend on the order of attributes.

    Parameters:
        op: the operation, with everything inside of it.
        exact: whether the names of values and blocks and the locations count too.

    """
    text = SEPARATOR.join(_Description(exact=exact).of(op))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class _Description:
    """Describes operations as texts.

    Values and blocks have the number of their first use. The printer of xDSL takes seven times as long, because it
    prints each attribute and each type anew.
    """

    def __init__(self, *, exact: bool) -> None:
        self._exact = exact
        self._values: dict[SSAValue, int] = {}
        self._blocks: dict[Block, int] = {}
        self._texts: dict[Attribute, str] = {}

    def of(self, op: Operation) -> Iterator[str]:
        """Iterate over the description of an operation."""
        yield op.name
        yield ",".join([str(self._number(value)) for value in op.operands])
        yield ",".join([str(self._number_of(block)) for block in op.successors])
        yield from self._entries(op.properties)
        yield from self._entries(op.attributes)
        for result in op.results:
            yield from self._value(result)
        if self._exact:
            yield self._text(op.location)
        for region in op.regions:
            yield from self._region(region)
        yield "end"

    def _region(self, region: Region) -> Iterator[str]:
        yield "region"
        for block in region.blocks:
            yield f"block {self._number_of(block)}"
            if self._exact:
                yield str(block.name_hint)
            for argument in block.args:
                yield from self._value(argument)
                if self._exact:
                    yield self._text(argument.location)
            for op in block.ops:
                yield from self.of(op)

    def _value(self, value: SSAValue) -> Iterator[str]:
        """Describe the definition of a value."""
        yield f"{self._number(value)}: {self._text(value.type)}"
        if self._exact:
            yield str(value.name_hint)

    def _entries(self, attributes: Mapping[str, Attribute]) -> Iterator[str]:
        for name in sorted(attributes):
            yield f"{name!r} = {self._text(attributes[name])}"
        yield "entries"

    def _number(self, value: SSAValue) -> int:
        return self._values.setdefault(value, len(self._values))

    def _number_of(self, block: Block) -> int:
        return self._blocks.setdefault(block, len(self._blocks))

    def _text(self, attribute: Attribute) -> str:
        try:
            text = self._texts.get(attribute)
        except TypeError:  # an attribute with a list, which has no hash
            return _printed(attribute)
        if text is None:
            text = self._texts[attribute] = _printed(attribute)
        return text


def _printed(attribute: Attribute) -> str:
    stream = StringIO()
    _AttributePrinter(stream).print_attribute(attribute)
    return stream.getvalue()


class _AttributePrinter(Printer):
    """Prints the digest of a resource in place of its key.

    xDSL gives it another key each time that it is parsed.
    """

    def print_resource_handle(self, dialect: str, handle: str) -> None:
        contents = _RESOURCES[dialect](handle) if dialect in _RESOURCES else None
        self.print_string(handle if not contents else blake2b(contents.encode(), digest_size=16).hexdigest())


_RESOURCES: Final[Mapping[str, Callable[[str], str | None]]] = {
    dialect.name: interface.lookup
    for dialect in RESOURCE_DIALECTS
    if (interface := dialect.get_interface(OpAsmDialectInterface)) is not None
}
"""The functions that return the contents of a resource, by dialect."""
