"""What the parser says of a token that may not stand where it stands."""

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
    ("a value for the attribute", {"NUMBER", "STRING", "TRUE", "FALSE", "NAME", "LSQB", "LPAR"}),
    ("a dimension", {"NUMBER", "QMARK", "META"}),
)
"""What may begin where all these tokens are allowed; of the first that fits, the tokens are not listed."""

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
    "a value for the attribute": {"MINUS", "META", "INTEGERS"},
    "a definition": {"VERSION"},
}
"""Further tokens that may begin it."""

_GOES_ON: Final = frozenset({"LPAR", "FIELD", "OPERATOR", "MINUS"})
"""What may follow after every term: not worth saying, where something else may."""


def unexpected(tables: Tables, states: Sequence[State], kind: int, word: str, start: int) -> TextError:
    """Return the error about a token, given the stack of the parser's states."""
    end = start + max(len(word), 1)
    if tables.kinds[kind] == "a character" and word == '"':
        return TextError("this string does not end on its line", start, end)
    wanted = _wanted(tables, states)
    return TextError(f"expected {wanted}, found {_found(tables, kind, word)}", start, end)


def _found(tables: Tables, kind: int, word: str) -> str:
    called = tables.kinds[kind]
    return called if called.startswith(("`", "the end")) else f"{called.removeprefix('a character')} `{word}`".strip()


def _wanted(tables: Tables, states: Sequence[State]) -> str:
    allowed = {name for name, kind in tables.numbers.items() if _is_shifted(states, kind)}
    called: list[str] = []
    for what, tokens in _KINDS:
        if tokens <= allowed and what not in called:
            called.append(what)
            allowed -= tokens | _MORE.get(what, set())
            break
    if called or "NAME" in allowed:
        allowed -= {"STRING"}  # a name in quotes
    if called or allowed - _GOES_ON:
        allowed -= _GOES_ON
    called += sorted(tables.kinds[tables.numbers[name]] for name in allowed)
    return called[0] if len(called) == 1 else f"{', '.join(called[:-1])} or {called[-1]}"


def _is_shifted(states: Sequence[State], kind: int) -> bool:
    """Tell whether the parser would read a token of a kind."""
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
