"""The text of a module in parts: its skeleton, and definitions of functions.

Nothing here calls LLVM. The text must be one that LLVM printed, so each entry but a definition is one line.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

from apass.errors import AdapterError

__all__ = [
    "NODES",
    "TOKEN",
    "Skeleton",
    "closure",
    "declaration",
    "defined_names",
    "plain_name",
    "rename",
    "split",
    "tokens",
]

TOKEN: Final = re.compile(r'[@$%]?"[^"]*"|[@$%][-A-Za-z0-9$._]+|[#!][0-9]+')
"""A name with its sigil, the number of an attribute group or of a metadata node, or a quoted text."""

NODES: Final = "!apass.nodes"
"""The named metadata of a private module that lists the metadata nodes of the module in a known order."""

STUB: Final = "  unreachable ; apass: the body is elsewhere\n}\n"
"""The body of a function that is not part of a private module.

A declaration cannot have the linkage of a definition, and some passes treat the two differently.
"""

_HEAD: Final = ("source_filename = ", "target ", "module asm ")
_DEBUG: Final = re.compile(r" !dbg ![0-9]+")
_NUMBERED: Final = re.compile(r"[@%][0-9]+")


def tokens(text: str) -> list[str]:
    """Return the tokens of a text; see `TOKEN`."""
    return TOKEN.findall(text)


def rename(text: str, names: Mapping[str, str]) -> str:
    """Return a text with other names or numbers."""
    return TOKEN.sub(lambda match: names.get(match[0], match[0]), text) if names else text


def plain_name(token: str) -> str:
    """Return the name of a global symbol without sigil and quotes.

    A name of digits keeps its quotes, because `@0` is a function without a name.

    >>> plain_name("@f"), plain_name('@"a b"'), plain_name("@0"), plain_name('@"0"')
    ('f', 'a b', '0', '"0"')
    """
    return token[2:-1] if token[1:2] == '"' and not token[2:-1].isdigit() else token[1:]


def defined_names(text: str) -> list[str]:
    """Return the names of the functions with a body, in the order of a text."""
    headers = [line for line in text.splitlines() if line.startswith("define ")]
    return [plain_name(next(token for token in tokens(header) if token[0] == "@")) for header in headers]


class Skeleton:
    """A module without the bodies of its functions, immutable.

    Entries are known by their tokens: `@f`, `%type`, `$comdat`, `#0`, `!0`. Each is a line of text. The line of a
    function with a body is its header, which ends with `{`.
    """

    def __init__(
        self,
        head: str,
        types: Mapping[str, str],
        comdats: Mapping[str, str],
        variables: Mapping[str, str],
        functions: Mapping[str, str],
        attributes: Mapping[str, str],
        named: Mapping[str, str],
        nodes: Mapping[str, str],
    ) -> None:
        self.head = head
        """Source file, data layout, triple and assembly code."""
        self.types, self.comdats, self.variables, self.functions = types, comdats, variables, functions
        self.attributes, self.named, self.nodes = attributes, named, nodes
        self._references: dict[str, frozenset[str]] = {}

    def find(self, token: str) -> str | None:
        """Return the line of an entry; None if there is none."""
        kind = token[0]
        if kind == "@":
            return self.functions.get(token) or self.variables.get(token)
        table = {"#": self.attributes, "!": self.nodes, "%": self.types, "$": self.comdats}.get(kind)
        return None if table is None else table.get(token)

    def references(self, token: str) -> frozenset[str]:
        """Return the entries that an entry uses."""
        found = self._references.get(token)
        if found is None:
            line = self.find(token) or ""
            names = set(tokens(line))
            if " comdat" in line and token[0] == "@":
                # `comdat` without a name is the one of the symbol's name.
                names.add(f"${token[1:]}")
            found = self._references[token] = frozenset(name for name in names if self.find(name) is not None)
        return found

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The position of each entry in the text."""
        tables = (self.types, self.comdats, self.variables, self.functions, self.attributes, self.nodes)
        return {token: index for index, token in enumerate(token for table in tables for token in table)}

    @cached_property
    def groups(self) -> Mapping[str, str]:
        """The number of each attribute group, by its contents."""
        return {line.partition(" = ")[2]: token for token, line in self.attributes.items()}

    @cached_property
    def always(self) -> Mapping[str, str]:
        """The entries that named metadata refers to, which every private module contains."""
        return closure("\n".join(self.named.values()), self)

    @cached_property
    def has_debug_info(self) -> bool:
        """Whether the module has debug information."""
        return "!llvm.dbg.cu" in self.named

    @cached_property
    def is_divisible(self) -> bool:
        """Whether a pass may run on a private module of one function.

        These constructs prevent it:

        - debug information, since nearly all of it belongs to each function
        - types and symbols without names, which LLVM numbers in the order of use
        - addresses of blocks in variables, which need the body
        """
        tables: tuple[Mapping[str, str], ...] = (self.types, self.variables, self.functions)
        return (
            not self.has_debug_info
            and not any(_NUMBERED.fullmatch(token) for table in tables for token in table)
            and not any("blockaddress(" in line for line in self.variables.values())
        )

    @cached_property
    def free_group(self) -> int:
        """The first free number of attribute groups."""
        return 1 + max((int(token[1:]) for token in self.attributes), default=-1)

    @cached_property
    def free_node(self) -> int:
        """The first free number of metadata nodes."""
        return 1 + max((int(token[1:]) for token in self.nodes), default=-1)

    def with_entries(self, entries: Mapping[str, str], headers: Mapping[str, str]) -> "Skeleton":
        """Return a skeleton with further entries, and other headers of functions."""
        tables: dict[str, dict[str, str]] = {kind: {} for kind in "@#!%$"}
        for token, line in entries.items():
            tables[token[0]][token] = line
        symbols = tables["@"]
        functions = {token: line for token, line in symbols.items() if line.startswith(("declare ", "define "))}
        variables = {token: line for token, line in symbols.items() if token not in functions}
        return Skeleton(
            self.head,
            {**self.types, **tables["%"]},
            {**self.comdats, **tables["$"]},
            {**self.variables, **variables},
            {**self.functions, **headers, **functions},
            {**self.attributes, **tables["#"]},
            self.named,
            {**self.nodes, **tables["!"]},
        )

    def with_lines(self, lines: Mapping[str, str]) -> "Skeleton":
        """Return a skeleton with other lines for some symbols, and further numbers."""
        numbered = {token: line for token, line in lines.items() if token[0] in "#!" and self.find(token) is None}
        variables, functions = (
            {token: lines.get(token, line) for token, line in table.items()}
            for table in (self.variables, self.functions)
        )
        return self.with_entries(numbered, {}).replaced(variables=variables, functions=functions)

    def replaced(self, **tables: Mapping[str, str]) -> "Skeleton":
        """Return a skeleton with other tables, by the names of the attributes."""
        return Skeleton(
            self.head,
            tables.get("types", self.types),
            tables.get("comdats", self.comdats),
            tables.get("variables", self.variables),
            tables.get("functions", self.functions),
            tables.get("attributes", self.attributes),
            tables.get("named", self.named),
            tables.get("nodes", self.nodes),
        )

    def only(self, chosen: Iterable[str]) -> "Skeleton":
        """Return a skeleton with some of the entries, in the same order."""
        tables: dict[str, dict[str, str]] = {kind: {} for kind in "@f#!%$"}
        for token in sorted(chosen, key=self.positions.__getitem__):
            kind = "f" if token in self.functions else token[0]
            tables[kind][token] = self.find(token) or ""
        return Skeleton(
            self.head,
            tables["%"],
            tables["$"],
            tables["@"],
            tables["f"],
            tables["#"],
            self.named,
            tables["!"],
        )

    def text(self, definitions: Mapping[str, str]) -> str:
        """Return the text of a module; functions without a definition have a stub."""
        parts = [self.head, *self.types.values(), *self.comdats.values(), *self.variables.values()]
        for token, line in self.functions.items():
            parts.append(definitions.get(token) or (_stub(line) if line.startswith("define ") else line))
        parts += [*self.attributes.values(), *self.named.values(), *self.nodes.values()]
        return "\n".join(parts) + "\n"


def _stub(header: str) -> str:
    return f"{_DEBUG.sub('', header)}\n{STUB}"


def declaration(line: str) -> str:
    """Return the declaration for a header; other lines are returned as they are."""
    if not line.startswith("define "):
        return line
    words = r"(?:(?:private|internal|available_externally|linkonce_odr|linkonce|weak_odr|weak|hidden|protected) )*"
    line = re.sub(rf"^define {words}", "declare ", line)
    return re.sub(r" (?:comdat(?:\([^)]*\))?|personality .*|![a-z_.]+ ![0-9]+.*|\{$).*$", "", line)


def closure(text: str, skeleton: Skeleton, find: Callable[[str], str | None] | None = None) -> dict[str, str]:
    """Return the entries that a text uses, directly or not.

    Parameters:
        text: the text.
        skeleton: contains the entries.
        find: returns further entries; those of `skeleton` come first.

    """
    found: dict[str, str] = {}
    open_tokens = list(set(tokens(text)))
    seen = set(open_tokens)
    while open_tokens:
        token = open_tokens.pop()
        line = skeleton.find(token)
        if line is not None:
            found[token] = line
            new = skeleton.references(token) - seen
        elif find is not None:
            line = find(token)
            if line is None:
                continue
            found[token] = line
            new = frozenset(tokens(line)) - seen
        else:
            continue
        seen |= new
        open_tokens += new
    return found


def split(text: str) -> tuple[Skeleton, dict[str, str]]:
    """Return the skeleton and the definitions of a text that LLVM printed.

    Raises:
        AdapterError: if the text is another one.

    """
    head: list[str] = []
    tables: dict[str, dict[str, str]] = {kind: {} for kind in "@f#!%$"}
    named: dict[str, str] = {}
    definitions: dict[str, str] = {}
    for line, body in _entries(text):
        if line.startswith(("define ", "declare ")):
            token = next((token for token in tokens(line) if token[0] == "@"), "")
            tables["f"][token] = line
            if body is not None and body != STUB:
                definitions[token] = f"{line}\n{body}"
        elif line.startswith(_HEAD):
            head.append(line)
        else:
            token = line.removeprefix("attributes ").partition(" = ")[0]
            if token[:1] == "!" and not token[1:].isdigit():
                named[token] = line
            elif token[:1] in tables and " = " in line:
                tables[token[0]][token] = line
            else:
                raise AdapterError(f"line {line[:80]!r} is no part of a module that LLVM printed")
    skeleton = Skeleton(
        "\n".join(head), tables["%"], tables["$"], tables["@"], tables["f"], tables["#"], named, tables["!"]
    )
    return skeleton, definitions


def _entries(text: str) -> Iterator[tuple[str, str | None]]:
    """Iterate over the lines outside of bodies, and the bodies."""
    position, size = 0, len(text)
    while position < size:
        end = text.find("\n", position)
        end = size if end < 0 else end
        line = text[position:end]
        position = end + 1
        if not line or line.startswith(";"):
            continue
        if line.startswith("define "):
            stop = text.find("\n}\n", end)
            if stop < 0:
                raise AdapterError(f"the function {line[:80]!r} has no end")
            yield line, text[position : stop + 3]
            position = stop + 3
        else:
            yield line, None
