"""The tables that drive the parser: Lark makes them of `grammar.lark`."""

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
"""What a text may be: a module, or an expression."""


@final
class State:
    """A state of the parser."""

    __slots__ = ("actions", "gotos")

    def __init__(self) -> None:
        self.actions: dict[int, Shift | Reduction] = {}
        """What is done by the kind of the next token: it is read, or a rule reduced."""
        self.gotos: dict[str, State] = {}
        """The state that follows, once a symbol has been made of what was read from here on."""


@final
class Shift(NamedTuple):
    """What is done when a token is read."""

    state: State
    """The state that follows."""
    action: Callable[..., object] | None
    """`action(builder, word, start, end)` makes its value; None if that is the word."""


@final
class Reduction(NamedTuple):
    """What is done when all the symbols of a rule have been read."""

    size: int
    """How many symbols the rule has."""
    action: Callable[..., object] | None
    """`action(builder, picked, start, end)` makes a value of theirs; None if it is that of the one symbol."""
    pick: Callable[[Sequence[object]], object] | None
    """Takes the values of the symbols that have a meaning off the end of a stack; None if there are none."""
    origin: str
    """The symbol that stands in their place from then on."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Everything that the driver needs."""

    token: re.Pattern[str]
    """Matches the space and comments before a token, and the token, in a group of its own."""
    kinds: tuple[str, ...]
    """How each kind of token is called in a message; the kind is the number of the group, unless `words` has it."""
    numbers: Mapping[str, int]
    """The kinds by the names that the grammar gives them, and `END`, `COMMENT` and `WRONG`."""
    words: Mapping[str, int]
    """The kinds of the tokens that are always spelt alike."""
    starts: Mapping[str, State]
    """The first state for each that a text may be."""
    finals: Mapping[str, State]
    """The state in which each is complete."""


_SPACE: Final = r"[ \t\r\n]*+(?:(?://[^\n]*+|/\*[^*/]*+(?:(?:\*(?!/)|/(?!\*))[^*/]*+)*+\*/)[ \t\r\n]*+)*+"
_MARKS: Final = "(),;{}]:?"  # what begins no other token, and is looked for first
_COMMENT: Final = {"COMMENT": r"/\*"}
_OTHERS: Final = {"END": r"\Z", "WRONG": r"."}
_CALLED: Final = {
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
    """Make the tables, at the first call for a class that has a method for each rule of the grammar."""
    grammar = (files("apass.relay.text.parsing") / "grammar.lark").read_text(encoding="utf-8")
    lark = Lark(grammar, parser="lalr", lexer="basic", start=list(STARTS))
    fixed = [one for one in lark.terminals if isinstance(one.pattern, PatternStr)]
    others = sorted(set(lark.terminals) - set(fixed), key=_precedence)
    spelt = sorted((one.pattern.value for one in fixed if not one.pattern.value.isidentifier()), key=len, reverse=True)
    groups = {
        "MARK": f"[{re.escape(_MARKS)}]",
        "COMMENT": r"/\*",
        **{one.name: one.pattern.to_regexp() for one in others},
        "SPELT": "|".join(map(re.escape, spelt)),
        "END": r"\Z",
        "WRONG": r".",
    }
    numbers = {name: number for number, name in enumerate([*groups, *(one.name for one in fixed)], 1)}
    called = _CALLED | {one.name: f"`{one.pattern.value}`" for one in fixed}
    states, starts, finals = _states(lark, numbers, builder)
    return Tables(
        re.compile(f"{_SPACE}(?:{'|'.join(f'({one})' for one in groups.values())})", re.ASCII | re.DOTALL),
        ("", *(called.get(name, name) for name in numbers)),
        numbers,
        {one.pattern.value: numbers[one.name] for one in fixed},
        {name: states[number] for name, number in starts.items()},
        {name: states[number] for name, number in finals.items()},
    )


def _precedence(terminal: TerminalDef) -> tuple[int, int, int, str]:
    """Return what terminals are tried by, as in Lark's own lexer."""
    pattern = terminal.pattern
    return (-terminal.priority, -pattern.max_width, -len(pattern.value), terminal.name)


def _states(
    lark: Lark, numbers: Mapping[str, int], builder: type[object]
) -> tuple[Mapping[int, State], Mapping[str, int], Mapping[str, int]]:
    """Return the states by number, linked to each other, and the numbers of the first and last ones."""
    # The form in which Lark saves a parser; the loader of what it saved goes by it too.
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
    """Make the value of a token when it is read, where nothing else can be made of it."""
    for kind, shift in state.actions.items():
        if not isinstance(shift, Shift) or shift.state.gotos:
            continue
        reductions = set(shift.state.actions.values())
        if len(reductions) == 1 and isinstance(only := reductions.pop(), Reduction) and only.size == 1 and only.pick:
            state.actions[kind] = Shift(state.gotos[only.origin], only.action)


def _reduction(rule: Mapping[str, Any], builder: type[object]) -> Reduction:
    symbols: list[Any] = rule["expansion"]
    size, alias = len(symbols), rule["alias"]
    kept = [place - size for place, symbol in enumerate(symbols) if not symbol.get("filter_out", False)]
    action: Callable[..., object] | None = getattr(builder, alias) if alias else None
    return Reduction(size, action, _pick(*kept) if kept else None, str(rule["origin"]["name"]))


@cache
def _pick(*places: int) -> Callable[[Sequence[object]], object]:
    return cast("Callable[[Sequence[object]], object]", itemgetter(*places))
