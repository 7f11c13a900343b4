"""The operations of MLIR functions as nodes, and locations with their names.

Operations are read from the text, one for each line that begins with one, as `mlir-opt` prints them.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from apass.adapters.mlir.module import LOCAL_SCOPE, MLIRFunction, MLIRModule
from apass.adapters.nodes import Node
from apass.adapters.programs import MLIR_OPT, Request, failure, run_now

__all__ = ["function_nodes", "with_file_locations"]

_STRING: Final = r'"(?:[^"\\\n]|\\.)*"'
_VALUE: Final = r"%[\w$.-]+"
_START: Final = re.compile(
    rf"""
    [ \t]* (?: (?P<results> {_VALUE}(?::\d+)? (?: \s*,\s* {_VALUE}(?::\d+)? )* ) \s*=\s* )?
    (?P<name> "[\w$.]+" | [A-Za-z_][\w$]*(?:\.[\w$]+)* ) (?! \s*[=:] | [\w$.] )
    """,
    re.VERBOSE,
)
"""The start of an operation, at the beginning of a line. A key of attributes or a case is no operation."""
_TOKEN: Final = re.compile(rf"{_STRING}|//[^\n]*|[(){{}}\[\]]")
_PART: Final = re.compile(rf"{_STRING}|{_VALUE}(?:\#\d+)?|\^[\w$.-]+|[\#!][A-Za-z_][\w$.-]*|\s+")
"""What is replaced in the text of an operation: values, blocks, aliases and layout."""
_RESULT: Final = re.compile(rf"({_VALUE})(?::(\d+))?")
_ALIAS: Final = re.compile(r"^([#!][\w$.-]+) *= *(.*)$", re.MULTILINE)
_LOCATION: Final = re.compile(r"\s*\bloc\(")
_NAMED: Final = re.compile(r'("(?:[^"\\\n]|\\.)*")\((.*)\)\Z')
"""A location with a name, around another location."""
_FILE: Final = re.compile(rf"({_STRING}):(\d+):(\d+)\Z")
_OWN: Final = re.compile(r'loc\("<stdin>":(\d+):(\d+)\)')
"""The location that `mlir-opt` gives to an operation without one."""
_BEFORE: Final = re.compile(rf"({_VALUE})(?::\d+)?(?:\s*,\s*{_VALUE}(?::\d+)?)*\s*=\s*\Z")
"""The results before the name of an operation."""
_LONGEST_RESULTS: Final = 400
"""Maximum number of characters of the results before the name of an operation."""
_DEEPEST: Final = 8
"""How often aliases are replaced by aliases."""


@dataclass(slots=True)
class _Operation:
    """An operation, as it is read."""

    name: str
    """The name, without quotes."""
    results: tuple[str, ...]
    """The results, as uses write them."""
    text: list[str] = field(default_factory=list[str])
    """The lines, without those of operations in its regions."""


def function_nodes(func: MLIRFunction) -> Iterator[Node]:
    """Iterate over the operations inside of a function.

    An operation is named after its location, if that has a name that no other one has, as `with_file_locations` gives
    it. Any other operation has its own name and a number: `arith.addi#0`. The names of values in the text do not count,
    because `mlir-opt` numbers them anew.
    """
    aliases = _aliases(func.definitions)
    reader = _Reader()
    reader.read(func.text[func.body :])
    ops = reader.found
    read = [_without_location(" ".join(op.text)) for op in ops]
    locations = [_resolved(location, aliases) for _, location in read]
    hints = [_hint(location) if op.results else "" for op, location in zip(ops, locations, strict=True)]
    counts = Counter(hints)
    numbers: Counter[str] = Counter()
    names: list[str] = []
    arguments = dict.fromkeys(re.findall(_VALUE, func.text[: func.body]))
    values = {argument: f"%arg{index}" for index, argument in enumerate(arguments)}
    for op, hint in zip(ops, hints, strict=True):
        is_named = bool(hint) and counts[hint] == 1
        names.append(f"%{hint}" if is_named else f"{op.name}#{numbers[op.name]}")
        numbers[op.name] += not is_named
        for index, result in enumerate(op.results):
            values[result] = f"{names[-1]}:{index}" if index else names[-1]
    for op, name, (text, _), location in zip(ops, names, read, locations, strict=True):
        shown = _text(text, values, aliases)
        yield Node(
            name=name,
            text=_text(text, dict.fromkeys(values, "%"), aliases),
            operands=tuple(values[match] for match in re.findall(rf"{_VALUE}(?:#\d+)?", text) if match in values),
            results=tuple(values[result] for result in op.results),
            location=_place(location),
            is_named=name.startswith("%"),
            display=f"{', '.join(values[result] for result in op.results)} = {shown}" if op.results else shown,
        )


class _Reader:
    """Reads the operations of a body in braces, line by line."""

    def __init__(self) -> None:
        self.found: list[_Operation] = []
        """The operations, in the order of their first lines."""
        self._current: _Operation | None = None
        """The operation that the line belongs to."""
        self._opened: list[tuple[str, _Operation | None]] = []
        """The open brackets, each with the operation that opened it."""

    def read(self, body: str) -> None:
        """Read a body, up to the brace that closes it."""
        for line in body.strip().removeprefix("{").splitlines():
            match = _START.match(line) if not self._opened or self._opened[-1][0] == "{" else None
            stripped = line.strip()
            if match is not None:
                self._current = _Operation(match["name"].strip('"'), tuple(_results(match["results"] or "")))
                self.found.append(self._current)
                stripped = line[match.start("name") :].strip()
            elif stripped.startswith("}") and self._opened:
                # The end of a region: what follows belongs to the operation around it.
                self._current = self._opened[-1][1]
            elif stripped.startswith("^"):
                continue
            end = self._end_of(stripped)
            if self._current is not None:
                self._current.text.append(stripped[:end].rstrip())
            if end < len(stripped) and stripped[end] == "}":
                return

    def _end_of(self, line: str) -> int:
        """Follow the brackets of a line; return where a comment begins, or the body ends."""
        for token in _TOKEN.finditer(line):
            if token[0] in "({[":
                self._opened.append((token[0], self._current))
            elif token[0].startswith("/") or (token[0] in ")}]" and not self._opened):
                return token.start()
            elif token[0] in ")}]":
                self._opened.pop()
        return len(line)


def _results(text: str) -> Iterator[str]:
    """Iterate over the results of an operation, as uses write them."""
    for name, count in _RESULT.findall(text):
        yield from (f"{name}#{index}" for index in range(int(count))) if count else (name,)


def _without_location(text: str) -> tuple[str, str]:
    """Return the text of an operation, and the location at its end."""
    for match in reversed(list(_LOCATION.finditer(text))):
        depth = 0
        for token in _TOKEN.finditer(text, match.end() - 1):
            depth += (token[0] in "([{") - (token[0] in ")]}")
            if not depth:
                if not text[token.end() :].strip():
                    return text[: match.start()], text[match.end() : token.start()]
                break
    return text, ""


@lru_cache(maxsize=16)
def _aliases(definitions: str) -> Mapping[str, str]:
    """Return the aliases of a module, and their values."""
    return dict(_ALIAS.findall(definitions))


def _resolved(location: str, aliases: Mapping[str, str]) -> str:
    """Return a location without aliases."""
    for _ in range(_DEEPEST):
        if "#" not in location:
            break
        location = _PART.sub(lambda match: _inner(aliases.get(match[0], match[0])), location)
    return location


def _inner(definition: str) -> str:
    return definition.strip().removeprefix("loc(").removesuffix(")") if definition.startswith("loc(") else definition


def _hint(location: str) -> str:
    """Return the name in a location, or ""."""
    match = _NAMED.match(location)
    return "" if match is None else match[1][1:-1]


def _place(location: str) -> str:
    """Return file, line and column of a location, or its text, or ""."""
    match = _NAMED.match(location)
    inner = location if match is None else match[2]
    file = _FILE.match(inner)
    if file is not None:
        return f"{file[1][1:-1]}:{file[2]}:{file[3]}"
    return "" if inner == "unknown" else inner


def _text(text: str, values: Mapping[str, str], aliases: Mapping[str, str]) -> str:
    """Return the text of an operation with other values, and without aliases."""

    def replaced(match: re.Match[str]) -> str:
        token = match[0]
        if token[0] == "%":
            return values.get(token, "%")
        if token[0] == "^":
            return "^"
        return " " if token.isspace() else aliases.get(token, token)

    return _PART.sub(replaced, text).strip()


def with_file_locations(mod: MLIRModule, *, has_names: bool = False) -> MLIRModule:
    """Return a module in which each operation has a location: its place in the text.

    `mlir-opt` prints it, which makes no difference to passes. A location that the text contains is kept.

    Parameters:
        mod: the module.
        has_names: whether new locations have the name of the first result, too.

    Raises:
        AdapterError: if the module is invalid.
        MissingExtraError: if there is no `mlir-opt`.

    """
    arguments = ("--mlir-print-debuginfo",) if mod.has_metadata else ("--mlir-print-debuginfo", LOCAL_SCOPE)
    request = Request(MLIR_OPT.find(), arguments, mod.text.encode("utf-8", "surrogatepass"))
    answer = run_now(request)
    if answer.status:
        raise failure(answer, request, mod.source)
    lines = mod.text.splitlines() if has_names else []
    source = mod.source if mod.source.isprintable() and not set('"\\').intersection(mod.source) else ""
    text = _OWN.sub(lambda match: _place_and_name(match, lines, source or "<module>"), answer.data.decode())
    return MLIRModule(text, mod.source, is_printed=True)


def _place_and_name(match: re.Match[str], lines: Sequence[str], source: str) -> str:
    """Return the location of an operation, with a name if the lines are given."""
    line, column = int(match[1]), int(match[2])
    place = f'"{source}":{line}:{column}'
    # The whole module may be in one line.
    start = max(0, column - 1 - _LONGEST_RESULTS)
    before = _BEFORE.search(lines[line - 1][start : column - 1]) if 0 < line <= len(lines) else None
    name = "" if before is None else before[1][1:]
    # A number means nothing after a pass.
    return f"loc({place})" if not name or name.isdigit() else f'loc("{name}"({place}))'
