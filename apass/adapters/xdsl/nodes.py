"""The operations of xDSL functions, for `Node`, and artificial locations."""

from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Final

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, SSAValue

from apass.adapters.nodes import Node
from apass.adapters.xdsl.symbols import copy_of, functions_of

__all__ = ["function_nodes", "with_file_locations"]

_LONG: Final = 200
"""Longer texts of attributes have a digest."""


def function_nodes(func: Operation) -> Iterator[Node]:
    """Iterate over the operations inside of a function.

    An operation is named after its first result, if that has a name that no other value has. Any other operation has
    its own name and a number: `arith.addi#0`.
    """
    ops = [op for op in func.walk() if op is not func]
    blocks = [block for op in (func, *ops) for region in op.regions for block in region.blocks]
    counts = Counter(value.name_hint for value in _all_values(ops, blocks))
    values: dict[SSAValue, str] = {}
    for number, block in enumerate(blocks):
        for index, argument in enumerate(block.args):
            hint = argument.name_hint
            values[argument] = f"%{hint}" if hint and counts[hint] == 1 else f"%block{number}.{index}"
    numbers: Counter[str] = Counter()
    names: dict[Operation, str] = {}
    named: set[Operation] = set()
    for op in ops:
        hint = op.results[0].name_hint if op.results else None
        if hint and counts[hint] == 1:
            names[op] = f"%{hint}"
            named.add(op)
        else:
            names[op] = f"{op.name}#{numbers[op.name]}"
            numbers[op.name] += 1
        for index, result in enumerate(op.results):
            values[result] = f"{names[op]}:{index}" if index else names[op]
    for op in ops:
        yield Node(
            name=names[op],
            text=_text(op),
            operands=tuple(values.get(operand, "?") for operand in op.operands),
            results=tuple(values[result] for result in op.results),
            location="" if isinstance(op.location, UnknownLoc) else _place(op.location),
            is_named=op in named,
        )


def _all_values(ops: list[Operation], blocks: list[Block]) -> Iterator[SSAValue]:
    for op in ops:
        yield from op.results
    for block in blocks:
        yield from block.args


def _text(op: Operation) -> str:
    """Return name, attributes and types of an operation."""
    entries = ", ".join([*_entries(op.properties), *_entries(op.attributes)])
    types = ", ".join(str(result.type) for result in op.results)
    return f"{op.name}{f' {{{entries}}}' if entries else ''}{f' : {types}' if types else ''}"


def _entries(attributes: Mapping[str, Attribute]) -> Iterator[str]:
    return (f"{name} = {_shown(attributes[name])}" for name in sorted(attributes))


def _shown(attribute: Attribute) -> str:
    """Return the text of an attribute, or a digest if it is long."""
    text = str(attribute)
    return text if len(text) <= _LONG else f"#{blake2b(text.encode(), digest_size=8).hexdigest()}"


def _place(location: Attribute) -> str:
    """Return the file, line and column of a location, or its text."""
    if isinstance(location, FileLineColLoc):
        return f"{location.filename.data}:{location.line.data}:{location.column.data}"
    return str(location)


def with_file_locations(mod: ModuleOp) -> ModuleOp:
    """Return a copy of a module in which each operation of a function has a location."""
    copy = copy_of(mod)
    line = 0
    for _, func in functions_of(copy):
        for op in func.walk():
            line += 1
            if isinstance(op.location, UnknownLoc):
                op.location = FileLineColLoc(StringAttr("apass"), IntAttr(line), IntAttr(1))
    return copy
