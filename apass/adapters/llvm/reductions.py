"""The parts of a module that `apass reduce` removes.

The changes are made in the text. LLVM reads each result, and verifies it if the module was valid. One that is invalid
raises, and is not used.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from apass.adapters.llvm.library import parse, printed
from apass.adapters.llvm.module import Module
from apass.adapters.llvm.skeleton import declaration, rename, tokens
from apass.errors import VerifyError
from apass.util.delta_debugging import Shrinking

__all__ = ["Block", "blocks_of", "shrinkings"]

_RESULT: Final = re.compile(r'  (%(?:"[^"]*"|[-A-Za-z0-9$._]+)) = ')
_LABEL: Final = re.compile(r'((?:"[^"]*"|[-A-Za-z0-9$._]+)):')
_TARGET: Final = re.compile(r'label (%(?:"[^"]*"|[-A-Za-z0-9$._]+))')
_INCOMING: Final = re.compile(r'\[ (?:[^\[\]"]|"[^"]*")*, (%(?:"[^"]*"|[-A-Za-z0-9$._]+)) \]')
_ATTACHMENT: Final = re.compile(r", (![A-Za-z_.]+) ![0-9]+")
_ZERO: Final = "zeroinitializer"
"""The value that replaces a removed one: LLVM's text allows it for every type."""


@dataclass
class Block:
    """A basic block in a text."""

    label: str
    """Its name as operands write it, such as `%entry`."""
    lines: list[str]
    """Instructions; some take several lines. The last one ends the block."""

    def targets(self) -> list[str]:
        """Return the labels of the blocks that may follow."""
        return _TARGET.findall(self.lines[-1])


def blocks_of(definition: str) -> list[Block]:
    """Return the blocks of a function that LLVM printed, without comments."""
    blocks: list[Block] = []
    for line in definition.splitlines()[1:-1]:
        label = _LABEL.match(line)
        if not blocks or label is not None:
            blocks.append(Block(f"%{label[1]}" if label is not None else "", []))
            if label is not None:
                continue
        if line.startswith("    #dbg_") or (line.startswith("  ") and line[2] not in " ]"):
            blocks[-1].lines.append(line)
        elif line.startswith("  "):
            # A switch, an invoke or a landing pad goes on.
            blocks[-1].lines[-1] += f"\n{line}"
    if blocks and not blocks[0].label:
        blocks[0].label = _entry_label(definition)
    return blocks


def _entry_label(definition: str) -> str:
    """Return the number of an entry block without a name: it follows the parameters."""
    numbers = [int(token[1:]) for token in tokens(definition.partition("\n")[0]) if re.fullmatch("%[0-9]+", token)]
    return f"%{max(numbers, default=-1) + 1}"


def shrinkings(mod: Module) -> Iterator[Shrinking[Module]]:
    """Iterate over the kinds of parts, from bodies to metadata.

    A result is valid if `mod` is valid.
    """
    names = list(mod.definitions)
    symbols = [*mod.skeleton.functions, *mod.skeleton.variables]
    places = [
        (name, block.label, index)
        for name in names
        for block in blocks_of(mod.definitions[name])
        for index in range(len(block.lines) - 1)
    ]
    branches = [(name, block.label) for name in names for block in blocks_of(mod.definitions[name]) if block.targets()]
    groups, kinds = list(mod.skeleton.attributes), _kinds(mod)
    is_valid = _is_valid(mod)
    for what, count, change in (
        ("bodies", len(names), partial(_without_bodies, mod, names)),
        ("symbols", len(symbols), partial(_without_symbols, mod, symbols)),
        ("branches", len(branches), partial(_without_branches, mod, branches)),
        ("instructions", len(places), partial(_without_instructions, mod, places)),
        ("attribute groups", len(groups), partial(_without_groups, mod, groups)),
        ("kinds of metadata", len(kinds), partial(_without_metadata, mod, kinds)),
    ):
        yield Shrinking(what, count, partial(_checked, change) if is_valid else change)


def _is_valid(mod: Module) -> bool:
    try:
        parse(mod.raw_text)
    except VerifyError:
        return False
    return True


def _checked(change: Callable[[frozenset[int]], Module], removed: frozenset[int]) -> Module:
    result = change(removed)
    parse(result.raw_text)
    return result


def _without_bodies(mod: Module, names: Sequence[str], removed: frozenset[int]) -> Module:
    """Replace bodies by declarations."""
    chosen = {names[index] for index in removed}
    lines = {token: declaration(line) if token in chosen else line for token, line in mod.skeleton.functions.items()}
    kept = {token: text for token, text in mod.definitions.items() if token not in chosen}
    return _parsed(mod, kept, functions=lines) if chosen else mod


def _without_symbols(mod: Module, symbols: Sequence[str], removed: frozenset[int]) -> Module:
    """Remove functions and variables; null replaces them."""
    if not removed:
        return mod
    chosen = {symbols[index]: "null" for index in removed}

    def rest(table: Mapping[str, str]) -> dict[str, str]:
        return {token: rename(line, chosen) for token, line in table.items() if token not in chosen}

    skeleton = mod.skeleton
    return _parsed(
        mod,
        rest(mod.definitions),
        functions=rest(skeleton.functions),
        variables=rest(skeleton.variables),
        nodes={token: rename(line, chosen) for token, line in skeleton.nodes.items()},
    )


def _without_branches(mod: Module, branches: Sequence[tuple[str, str]], removed: frozenset[int]) -> Module:
    """Let blocks end with `unreachable`, and remove those that are then not reachable."""
    chosen = {branches[index] for index in removed}

    def change(token: str, block: Block) -> None:
        if (token, block.label) in chosen:
            block.lines[-1] = "  unreachable"

    return _edited(mod, {token for token, _ in chosen}, change)


def _without_instructions(mod: Module, places: Sequence[tuple[str, str, int]], removed: frozenset[int]) -> Module:
    """Remove instructions; zero replaces their results."""
    chosen: dict[tuple[str, str], set[int]] = {}
    for index in removed:
        token, label, number = places[index]
        chosen.setdefault((token, label), set()).add(number)

    def change(token: str, block: Block) -> None:
        numbers = chosen.get((token, block.label), ())
        block.lines = [line for number, line in enumerate(block.lines) if number not in numbers]

    return _edited(mod, {token for token, _ in chosen}, change)


def _edited(mod: Module, names: set[str], change: Callable[[str, Block], None]) -> Module:
    if not names:
        return mod
    definitions = dict(mod.definitions)
    for token in names:
        blocks = blocks_of(definitions[token])
        before = _results(blocks)
        for block in blocks:
            change(token, block)
        blocks = _reachable(blocks)
        lost = dict.fromkeys(before - _results(blocks), _ZERO)
        lines = [definitions[token].partition("\n")[0]]
        for block in blocks:
            lines.append(f"{block.label[1:]}:")
            lines += [rename(line, lost) for line in block.lines]
        definitions[token] = "\n".join([*lines, "}\n"])
    return _parsed(mod, definitions)


def _results(blocks: Sequence[Block]) -> set[str]:
    matches = (_RESULT.match(line) for block in blocks for line in block.lines)
    return {match[1] for match in matches if match is not None}


def _reachable(blocks: Sequence[Block]) -> list[Block]:
    """Return the reachable blocks, with phis that name their predecessors only."""
    by_label = {block.label: block for block in blocks}
    found: set[str] = set()
    open_labels = [blocks[0].label]
    while open_labels:
        label = open_labels.pop()
        if label not in found:
            found.add(label)
            open_labels += by_label[label].targets()
    kept = [block for block in blocks if block.label in found]
    before: dict[str, set[str]] = {}
    for block in kept:
        for target in block.targets():
            before.setdefault(target, set()).add(block.label)
    for block in kept:
        changed = (_with_incoming(line, before.get(block.label, set())) for line in block.lines)
        block.lines = [line for line in changed if line]
    return kept


def _with_incoming(line: str, labels: set[str]) -> str:
    """Return a phi with values from some blocks only; "" if none is left."""
    if " = phi " not in line:
        return line
    found = list(_INCOMING.finditer(line))
    if not found:
        return line
    kept = ", ".join(match[0] for match in found if match[1] in labels)
    return line[: found[0].start()] + kept + line[found[-1].end() :] if kept else ""


def _without_groups(mod: Module, groups: Sequence[str], removed: frozenset[int]) -> Module:
    """Empty groups of attributes."""
    chosen = {groups[index] for index in removed}
    lines = {token: f"attributes {token} = {{ }}" if token in chosen else line for token, line in _groups(mod)}
    return _parsed(mod, mod.definitions, attributes=lines) if chosen else mod


def _groups(mod: Module) -> Iterator[tuple[str, str]]:
    yield from mod.skeleton.attributes.items()


def _kinds(mod: Module) -> list[str]:
    attached = {kind for text in mod.definitions.values() for kind in _ATTACHMENT.findall(text)}
    return [*mod.skeleton.named, *sorted(attached)]


def _without_metadata(mod: Module, kinds: Sequence[str], removed: frozenset[int]) -> Module:
    """Remove named metadata, and kinds of metadata from instructions."""
    chosen = {kinds[index] for index in removed}
    if not chosen:
        return mod

    def strip(text: str) -> str:
        return _ATTACHMENT.sub(lambda match: "" if match[1] in chosen else match[0], text)

    named = {kind: line for kind, line in mod.skeleton.named.items() if kind not in chosen}
    return _parsed(mod, {token: strip(text) for token, text in mod.definitions.items()}, named=named)


def _parsed(mod: Module, definitions: Mapping[str, str], **tables: Mapping[str, str]) -> Module:
    return Module.of_printed(printed(mod.skeleton.replaced(**tables).text(definitions)))
