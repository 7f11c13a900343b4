"""`same_program`: compares MLIR texts apart from layout and the names of values."""

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

from apass.adapters.mlir.structure import parse_structure

__all__ = ["same_program"]

_TOKEN: Final = re.compile(
    r"""
    \s+ | //[^\n]*
    | (?P<name> [%^] [\w$.-]+ )
    | (?P<other> "(?:[^"\\\n]|\\.)*" | [@#!]? [\w$.]+ | -> | . )
    """,
    re.VERBOSE,
)


def same_program(a: str, b: str) -> bool:
    r"""Return whether texts differ at most in layout, comments and names of values.

    It is False for some texts that are the same program, for example if one of them uses an alias.

    >>> same_program("func.func @f(%x: i32) {return}", "module {\n  func.func @f(%arg0: i32) {\n    return\n  }\n}")
    True
    """
    if a == b:
        return True
    before, after = parse_structure(a), parse_structure(b)
    if [part.name for part in before.operations] != [part.name for part in after.operations]:
        return False
    if _head(before.head) != _head(after.head) or _head(before.tail) != _head(after.tail):
        return False
    pairs = zip(before.operations, after.operations, strict=True)
    return all(p == q for x, y in pairs for p, q in zip_longest(_tokens(x.text), _tokens(y.text)))


def _head(text: str) -> list[str]:
    tokens = list(_tokens(text))
    return [] if tokens in (["module", "{"], ["}"]) else tokens


def _tokens(text: str) -> Iterator[str]:
    """Iterate over the tokens, with a number for each name, in the order of first use."""
    numbers: dict[str, str] = {}
    for match in _TOKEN.finditer(text):
        name = match["name"]
        if name is not None:
            yield numbers.setdefault(name, f"{name[0]}{len(numbers)}")
        elif match["other"] is not None:
            yield match["other"]
