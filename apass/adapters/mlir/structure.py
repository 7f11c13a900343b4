"""The top-level operations of MLIR text, and the functions among them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Final

__all__ = ["Operation", "Structure", "declaration", "parse_structure"]

_TOKEN: Final = re.compile(
    r"""
    "(?:[^"\\\n]|\\.)*"     # a string
    | //[^\n]*              # a comment
    | \{-\# | \#-\}         # the metadata of a file, such as resources
    | [(){}\[\]\n]
    """,
    re.VERBOSE,
)
"""What determines where operations begin. All other text is skipped."""

_INNER: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|[(){}\[\]]')
"""What matters inside of brackets, where most of a text is. Lines do not matter there."""

_START: Final = re.compile(
    r"""
    [ \t]*
    (?: (?: %[\w$.-]+ (?: :\d+ )? \s* ,? \s* )+ = \s* )?   # results
    (?P<name> "[^"\n]*" | [A-Za-z_][\w$]* \. [\w$.]+ | (?:module|func)\b )
    """,
    re.VERBOSE,
)
"""The start of an operation, at the beginning of a line."""

_ALIAS: Final = re.compile(r"[ \t]*[#!][\w$-]+\s*=")
_SYMBOL: Final = re.compile(r'@(?:"((?:[^"\\\n]|\\.)*)"|([\w$.-]+))')
_MODULE: Final = re.compile(r"[ \t]*(?:builtin\.)?module\b")
_MODULE_HEAD: Final = re.compile(
    r'\s*(?:builtin\.)?module\s*(?:@(?:"(?:[^"\\\n]|\\.)*"|[\w$.-]+)\s*)?(?:attributes\s*)?'
)
_VISIBILITY: Final = re.compile(r"func\.func\s+(?:(?:private|public|nested)\s+)?@")
_LOCATION: Final = re.compile(r"\s*loc\s*")
_FUNCTION: Final = re.compile(r"[\w$]\.func\b")
_AFTER_MODULE: Final = re.compile(r"\}\s*(?:loc\s*\(|[#!]|\{-#|//|\Z)")
"""What may follow the last operation of a module: its location, aliases, metadata, comments."""
_OUTER_MODULE: Final = re.compile(r"^[ \t]*(?:builtin\.)?module\b", re.MULTILINE)
_AFTER_OPERATIONS: Final = re.compile(r"^(?:[#!][\w$-]+\s*=|\{-#)", re.MULTILINE)
_OPENING: Final = "({["
_CLOSING: Final = ")}]"


@dataclass(frozen=True, slots=True)
class Operation:
    """A top-level operation of a module, or the text between two of them."""

    text: str
    """The text."""
    name: str = ""
    """The name of the operation, such as `func.func`; empty for the text between operations."""
    symbol: str | None = None
    """The symbol of a function with a body; None for anything else."""
    body: int = 0
    """The offset in `text` of the brace at which the body of a function begins."""


@dataclass(frozen=True, slots=True)
class Structure:
    """The parts of a module; their texts, joined, are the text of the module."""

    head: str
    """The text before the first operation: aliases, and the start of the module."""
    parts: tuple[Operation, ...]
    """The operations, and the texts between them."""
    tail: str
    """The text after the last operation."""

    @property
    def operations(self) -> list[Operation]:
        """The operations."""
        return [part for part in self.parts if part.name]

    @property
    def functions(self) -> Mapping[str, Operation]:
        """The functions that have a body, by symbol."""
        return {part.symbol: part for part in self.parts if part.symbol is not None}

    def definitions(self) -> tuple[str, str]:
        """Return the aliases before the operations, and what is defined after them."""
        before = [*_OUTER_MODULE.split(self.head, maxsplit=1)[:1], *(part.text for part in self.parts if not part.name)]
        aliases = [line for text in before for line in text.splitlines() if _ALIAS.match(line)]
        after = _AFTER_OPERATIONS.search(self.tail)
        return "".join(f"{line}\n" for line in aliases), "" if after is None else self.tail[after.start() :]

    def text(self) -> str:
        """Return the text of the module."""
        return "".join(chain([self.head], (part.text for part in self.parts), [self.tail]))


def parse_structure(text: str) -> Structure:
    r"""Return the structure of a module.

    It never fails. If the operations cannot be separated with certainty, the result has no functions:

    - two operations begin on the same line
    - two functions have the same name
    - the text is in generic form, or its brackets do not match

    >>> [part.symbol for part in parse_structure("module {\n  func.func @f() {\n    return\n  }\n}").operations]
    ['f']
    """
    whole = Structure("", (Operation(text, "text"),), "")
    top = _Scan(text, 0)
    if not top.is_balanced:
        return whole
    operations = [start for start in top.starts if _START.match(text, start)]
    if len(operations) == 1 and _MODULE.match(text, operations[0]):
        begin = _body_of_module(text, operations[0])
        if begin is None:
            return whole
        inner = _Scan(text, begin)
        if not inner.is_balanced or not _AFTER_MODULE.match(text, inner.end):
            return whole
    else:
        inner = top
    bounds = [*inner.starts, inner.end]
    head, tail = text[: bounds[0]], text[inner.end :]
    parts: list[Operation] = []
    for start, end in pairwise(bounds):
        stop = inner.last_significant(start, end)
        operation = _operation(text, start, stop, inner)
        if operation is None:
            return whole
        parts.append(operation)
        if stop < end:
            parts.append(Operation(text[stop:end]))
    symbols = [part.symbol for part in parts if part.symbol is not None]
    return Structure(head, tuple(parts), tail) if len(set(symbols)) == len(symbols) else whole


def declaration(function: Operation) -> str:
    """Return a declaration of a `func.func`, so that calls of it can be verified."""
    return _VISIBILITY.sub("func.func private @", function.text[: function.body].rstrip(), count=1)


class _Scan:
    """The brackets and the operations of one region, up to its closing brace."""

    def __init__(self, text: str, begin: int) -> None:
        self.text = text
        self.starts: list[int] = []
        """Where operations and aliases begin."""
        self.groups: list[tuple[int, int]] = []
        """The outermost pairs of brackets, each from its first character to after its last one."""
        self.comments: list[tuple[int, int]] = []
        """The comments outside of brackets."""
        self.end = len(text)
        """Where the region ends: at its closing brace, at the metadata of the file, or at the end of the text."""
        self.is_balanced = True
        """Whether each bracket has its counterpart."""
        self._scan(begin)

    def _scan(self, begin: int) -> None:
        text, stack, opened = self.text, list[str](), 0
        self._look_for_start(begin)
        position = begin
        while (match := (_INNER if stack else _TOKEN).search(text, position)) is not None:
            token, start, position = match.group(), match.start(), match.end()
            first = token[0]
            if first == "\n":
                if not stack:
                    self._look_for_start(position)
            elif token == "{-#":
                if not stack:
                    self.end, self.is_balanced = start, not begin
                    return
            elif first in _OPENING:
                if not stack:
                    opened = start
                stack.append(_CLOSING[_OPENING.index(first)])
            elif first in _CLOSING:
                if not stack and first == "}" and begin:
                    self.end = start
                    return
                if not stack or stack.pop() != first:
                    self.is_balanced = False
                    return
                if not stack:
                    self.groups.append((opened, position))
            elif first == "/" and not stack:
                self.comments.append(match.span())
        # A region that is not closed, or a bracket that is not.
        self.is_balanced = not stack and not begin

    def _look_for_start(self, position: int) -> None:
        if _START.match(self.text, position) or _ALIAS.match(self.text, position):
            self.starts.append(position)

    def last_significant(self, start: int, end: int) -> int:
        """Return the end of the text from `start`, without comments and space at its end."""
        comments = [span for span in self.comments if start <= span[0] and span[1] <= end]
        while True:
            end = start + len(self.text[start:end].rstrip())
            if not comments or comments[-1][1] != end:
                return end
            end = comments.pop()[0]


def _body_of_module(text: str, start: int) -> int | None:
    """Return where the body of a module operation begins, after its brace."""
    head = _MODULE_HEAD.match(text, start)
    if head is None:
        return None
    position = head.end()
    if head.group().rstrip().endswith("attributes"):
        dictionary = _Scan(text, position + 1)
        if text[position : position + 1] != "{" or not dictionary.is_balanced:
            return None
        position = dictionary.end + 1
    while text[position : position + 1].isspace():
        position += 1
    return position + 1 if text[position : position + 1] == "{" else None


def _operation(text: str, start: int, end: int, scan: _Scan) -> Operation | None:
    """Return the operation in `text[start:end]`; None if it may be several."""
    match = _START.match(text, start)
    whole = text[start:end]
    if match is None:
        return Operation(whole)  # an alias
    name = match["name"]
    groups = [(first - start, last - start) for first, last in scan.groups if start <= first and last <= end]
    outside = "".join(_outside(whole, groups))
    if len(_FUNCTION.findall(outside)) > name.endswith(".func"):
        return None
    if not name.endswith(".func"):
        return Operation(whole, name.strip('"'))
    # A location may follow the body.
    stop = len(whole)
    if len(groups) > 1 and groups[-1][1] == stop and _LOCATION.fullmatch(whole, groups[-2][1], groups[-1][0]):
        stop = groups[-2][1]
        groups = groups[:-1]
    symbol = _SYMBOL.search(whole)
    has_body = bool(groups) and groups[-1][1] == stop and whole[groups[-1][0]] == "{"
    if symbol is None or not has_body or whole[: groups[-1][0]].rstrip().endswith("attributes"):
        return Operation(whole, name)
    quoted, plain = symbol.groups()
    return Operation(whole, name, plain or quoted, groups[-1][0])


def _outside(text: str, groups: list[tuple[int, int]]) -> Iterator[str]:
    """Iterate over the texts between brackets."""
    position = 0
    for first, last in groups:
        yield text[position:first]
        position = last
    yield text[position:]
