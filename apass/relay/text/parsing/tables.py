"""The parse tables, which Lark builds from `grammar.lark`."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from operator import itemgetter
from typing import Any, Final, NamedTuple, cast, final

from lark import Lark
from lark.grammar import Rule
from lark.lexer import PatternStr, TerminalDef

__all__ = ["Reduction", "Shift", "State", "Tables", "load_tables"]

STARTS: Final = ("module", "program")
"""The start symbols of the grammar: a module or an expression."""


@final
class State:
    """A state of the parser."""

    __slots__ = ("actions", "gotos")

    def __init__(self) -> None:
        self.actions: dict[int, Shift | Reduction] = {}
        """The action for each kind of the next token: shift or reduce."""
        self.gotos: dict[str, State] = {}
        """The next state after a reduction to each symbol."""


@final
class Shift(NamedTuple):
    """The action that reads a token."""

    state: State
    """The next state."""
    action: Callable[..., object] | None
    """`action(builder, word, start, end)` returns the value of the token. If None, the value is the word."""


@final
class Reduction(NamedTuple):
    """The action that replaces the symbols of a rule by one symbol."""

    size: int
    """The number of symbols of the rule."""
    action: Callable[..., object] | None
    """`action(builder, picked, start, end)` returns the value. If None, it is the value of the only symbol."""
    pick: Callable[[Sequence[object]], object] | None
    """Returns the values of the meaningful symbols from the end of the stack. None if there are none."""
    origin: str
    """The symbol that replaces the symbols of the rule."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The data of the parser driver."""

    token: re.Pattern[str]
    """Matches space and comments before a token, and the token in a group for its kind."""
    kinds: tuple[str, ...]
    """The name of each token kind in messages. A kind is a group number, or an entry of `words`."""
    numbers: Mapping[str, int]
    """The kinds by name in the grammar, and `END`, `COMMENT` and `WRONG`."""
    words: Mapping[str, int]
    """The kinds of tokens with a fixed spelling."""
    starts: Mapping[str, State]
    """The initial state of each start symbol."""
    finals: Mapping[str, State]
    """The final state of each start symbol."""


# No possessive group: Python 3.11.0 to 3.11.4 match one that contains a choice wrongly (issue 106052 of cpython).
_SPACE: Final = r"[ \t\r\n]*+(?:(?://[^\n]*+|/\*[^*/]*+(?:(?:\*(?!/)|/(?!\*))[^*/]*+)*\*/)[ \t\r\n]*+)*"
_MARKS: Final = "(),;{}]:?"  # characters that start no other token, so they are matched first
_KIND_NAMES: Final = {
    "VERSION": "a version",
    "META": "a reference to the metadata",
    "MATCH_SOME": "`match?`",
    "BIND": "a binding of a graph variable",
    "CALL": "a call",
    "TENSOR_TYPE": "a type",
    "INTEGERS": "a list of integers",
    "GRAPH": "a graph variable",
    "LOCAL": "a variable",
    "GLOBAL": "a global variable",
    "NAME": "a name",
    "NUMBER": "a number",
    "FIELD": "a field",
    "STRING": "a string",
    "OPERATOR": "an operator",
    "COMMENT": "a comment",
    "END": "the end of the text",
    "WRONG": "a character",
}


@cache
def load_tables(builder: type[object]) -> Tables:
    """Build the tables for a builder class, which has a method for each grammar rule."""
    grammar = (files("apass.relay.text.parsing") / "grammar.lark").read_text(encoding="utf-8")
    lark = Lark(grammar, parser="lalr", lexer="basic", start=list(STARTS))
    fixed = [terminal for terminal in lark.terminals if isinstance(terminal.pattern, PatternStr)]
    patterns = sorted(set(lark.terminals) - set(fixed), key=_precedence)
    spellings = (terminal.pattern.value for terminal in fixed)
    spelt = sorted((spelling for spelling in spellings if not spelling.isidentifier()), key=len, reverse=True)
    groups = {
        "MARK": f"[{re.escape(_MARKS)}]",
        "COMMENT": r"/\*",
        **{terminal.name: terminal.pattern.to_regexp() for terminal in patterns},
        "SPELT": "|".join(map(re.escape, spelt)),
        "END": r"\Z",
        "WRONG": r".",
    }
    numbers = {name: number for number, name in enumerate([*groups, *(terminal.name for terminal in fixed)], 1)}
    names = _KIND_NAMES | {terminal.name: f"`{terminal.pattern.value}`" for terminal in fixed}
    states, starts, finals = _states(lark, numbers, builder)
    return Tables(
        re.compile(f"{_SPACE}(?:{'|'.join(f'({group})' for group in groups.values())})", re.ASCII | re.DOTALL),
        ("", *(names.get(name, name) for name in numbers)),
        numbers,
        {terminal.pattern.value: numbers[terminal.name] for terminal in fixed},
        {name: states[number] for name, number in starts.items()},
        {name: states[number] for name, number in finals.items()},
    )


def _precedence(terminal: TerminalDef) -> tuple[int, int, int, str]:
    """Return the sort key of terminals in Lark's own lexer."""
    pattern = terminal.pattern
    return (-terminal.priority, -pattern.max_width, -len(pattern.value), terminal.name)


def _states(
    lark: Lark, numbers: Mapping[str, int], builder: type[object]
) -> tuple[Mapping[int, State], Mapping[str, int], Mapping[str, int]]:
    """Return the linked states by number, and the numbers of initial and final states."""
    # `memo_serialize` returns the format in which Lark saves parsers. Lark's own loader depends on it, so it is stable.
    saved, memo = cast("Any", lark).memo_serialize([TerminalDef, Rule])
    table: Any = saved["parser"]["parser"]
    symbols: Mapping[int, str] = table["tokens"]
    actions: Mapping[int, Mapping[int, tuple[int, Any]]] = table["states"]
    states = {number: State() for number in actions}
    for number, row in actions.items():
        for symbol, (is_reduction, target) in row.items():
            name = symbols[symbol].replace("$END", "END")
            if name not in numbers:
                states[number].gotos[name] = states[target]
                continue
            if is_reduction:
                states[number].actions[numbers[name]] = _reduction(memo[target["@"]], builder)
            else:
                states[number].actions[numbers[name]] = Shift(states[target], None)
    for state in states.values():
        _reduce_at_once(state)
    return states, table["start_states"], table["end_states"]


def _reduce_at_once(state: State) -> None:
    """Replace a shift followed by the only possible reduction by one action."""
    for kind, shift in state.actions.items():
        if not isinstance(shift, Shift) or shift.state.gotos:
            continue
        reductions = set(shift.state.actions.values())
        if len(reductions) == 1 and isinstance(only := reductions.pop(), Reduction) and only.size == 1 and only.pick:
            state.actions[kind] = Shift(state.gotos[only.origin], only.action)


def _reduction(rule: Mapping[str, Any], builder: type[object]) -> Reduction:
    symbols: list[Any] = rule["expansion"]
    size, alias = len(symbols), rule["alias"]
    positions = [index - size for index, symbol in enumerate(symbols) if not symbol.get("filter_out", False)]
    action: Callable[..., object] | None = getattr(builder, alias) if alias else None
    return Reduction(size, action, _pick(*positions) if positions else None, str(rule["origin"]["name"]))


@cache
def _pick(*positions: int) -> Callable[[Sequence[object]], object]:
    return cast("Callable[[Sequence[object]], object]", itemgetter(*positions))
