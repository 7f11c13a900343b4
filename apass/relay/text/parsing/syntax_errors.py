"""Error messages for unexpected tokens."""

from collections.abc import Sequence
from typing import Final

from apass.relay.text.parsing.source import TextError
from apass.relay.text.parsing.tables import Reduction, State, Tables

__all__ = ["unexpected"]

_KINDS: Final = (
    ("a definition", {"DEF", "TYPE", "EXTERN"}),
    ("an expression", {"LOCAL", "GRAPH", "GLOBAL", "NAME", "NUMBER", "IF", "LBRACE", "LPAR", "LET", "FREE_VAR"}),
    ("an expression", {"LOCAL", "GRAPH", "GLOBAL", "NAME", "NUMBER", "IF", "LBRACE", "LPAR"}),
    ("a type", {"NAME", "TENSOR", "FN", "REF", "LPAR", "UNDERSCORE", "META"}),
    ("a pattern", {"NAME", "LOCAL", "LPAR", "UNDERSCORE", "CALL"}),
    ("an attribute value", {"NUMBER", "STRING", "TRUE", "FALSE", "NAME", "LSQB", "LPAR"}),
    ("a dimension", {"NUMBER", "QMARK", "META"}),
)
"""Constructs and the tokens that start them.

The message names the first construct whose tokens are all allowed, in place of its tokens.
"""

_MORE: Final = {
    "an expression": {
        "META",
        "TRUE",
        "FALSE",
        "FN",
        "REF",
        "REF_READ",
        "REF_WRITE",
        "MATCH",
        "MATCH_SOME",
        "VERSION",
        "BIND",
        "CALL",
    },
    "a type": {"TENSOR_TYPE"},
    "an attribute value": {"MINUS", "META", "INTEGERS"},
    "a definition": {"VERSION"},
}
"""Further tokens that can start a construct."""

_CONTINUATIONS: Final = frozenset({"LPAR", "FIELD", "OPERATOR", "MINUS"})
"""Tokens that can follow every term. The message omits them if any other token is allowed."""


def unexpected(tables: Tables, states: Sequence[State], kind: int, word: str, start: int) -> TextError:
    """Return the error for an unexpected token. `states` is the stack of the parser."""
    end = start + max(len(word), 1)
    if tables.kinds[kind] == "a character" and word == '"':
        return TextError("unterminated string", start, end)
    found = tables.kinds[kind]
    if not found.startswith(("`", "the end")):
        found = f"{found.removeprefix('a character')} `{word}`".strip()
    return TextError(f"expected {_expected(tables, states)}, found {found}", start, end)


def _expected(tables: Tables, states: Sequence[State]) -> str:
    allowed = {name for name, kind in tables.numbers.items() if _is_shifted(states, kind)}
    names: list[str] = []
    for construct, tokens in _KINDS:
        if tokens <= allowed:
            names.append(construct)
            allowed -= tokens | _MORE.get(construct, set())
            break
    if names or "NAME" in allowed:
        allowed -= {"STRING"}  # a name in quotes
    if names or allowed - _CONTINUATIONS:
        allowed -= _CONTINUATIONS
    names += sorted(tables.kinds[tables.numbers[name]] for name in allowed)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _is_shifted(states: Sequence[State], kind: int) -> bool:
    """Return whether the parser would shift a token of a kind."""
    # Simulate the reductions, because an LALR parser may reduce before it detects the error.
    stack = list(states)
    while True:
        action = stack[-1].actions.get(kind)
        if not isinstance(action, Reduction):
            return action is not None
        if action.size:
            del stack[-action.size :]
        stack.append(stack[-1].gotos[action.origin])
        if not stack[-1].actions:
            return True  # the whole text is complete
