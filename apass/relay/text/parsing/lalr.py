"""`drive`: runs an LALR parser on the tables that Lark builds.

Lark's own loop takes three times as long, because it creates an object and calls several functions for each token.

The lexer is contextual for one token: text that starts with a minus is a number only if the parser accepts a number.
"""

import re
from typing import Final

from apass.relay.text.parsing.source import TextError
from apass.relay.text.parsing.syntax_errors import unexpected
from apass.relay.text.parsing.tables import Shift, Tables

__all__ = ["drive"]

_NO_VALUES: Final = ()
_COMMENT_MARKS: Final = re.compile(r"/\*|\*/")


def drive(tables: Tables, start: str, text: str, builder: object) -> object:
    """Parse a text and return the value that the builder's methods create.

    `start` is the start symbol of the grammar.

    Raises:
        TextError: if the text does not match the grammar.

    """
    run = _ParserRun(tables, start, text, builder)
    position: int | None = 0
    while position is not None:
        position = run.read(position)
    return run.value


class _ParserRun:
    """One parse: the stacks of an LALR parser."""

    def __init__(self, tables: Tables, start: str, text: str, builder: object) -> None:
        self._tables = tables
        self._text = text
        self._builder = builder
        self._states = [tables.starts[start]]
        self._values: list[object] = []
        self._starts: list[int] = []  # the offset at which each symbol on the stack begins
        self._final = tables.finals[start]
        self._end = 0  # the offset at which the last token that was read ends

    @property
    def value(self) -> object:
        """The value of the text, after parsing."""
        return self._values[-1]

    def read(self, position: int) -> int | None:
        """Parse tokens from an offset. Return the offset to resume at, or None at the end."""
        # Local variables: attribute access is slow in this loop. The iterator of matches cannot be moved back, so this
        # method returns the offset to resume at if the next token does not start where the match ended.
        states, values, starts, final = self._states, self._values, self._starts, self._final
        builder, words, numbers = self._builder, self._tables.words, self._tables.numbers
        number, state, end, resume = numbers["NUMBER"], states[-1], self._end, None
        for match in self._tables.token.finditer(self._text, position):
            group = match.lastindex or 0
            word, start = match[group], match.start(group)
            kind = words.get(word, group)
            while True:
                action = state.actions.get(kind)
                if type(action) is Shift:
                    end = match.end()
                    state, make = action
                    states.append(state)
                    starts.append(start)
                    values.append(make(builder, word, start, end) if make else word)
                    break
                if action is None:
                    # The number is not allowed here: take only its minus, as an operator, and resume after it.
                    if kind == number and word[0] == "-":
                        kind, resume = numbers["MINUS"], start + 1
                        continue
                    self._end = end
                    return self._skip_comment(kind, word, start)
                size, make, pick, origin = action
                if not size:
                    values.append(make(builder, _NO_VALUES, end, end) if make else None)
                    starts.append(end)
                    states.append(state)
                elif make:
                    value = make(builder, pick(values) if pick else _NO_VALUES, starts[-size], end)
                    if size > 1:
                        cut = 1 - size
                        del values[cut:], starts[cut:], states[cut:]
                    values[-1] = value
                states[-1] = state = states[-2].gotos[origin]
                if state is final:
                    return None
            if resume is not None:
                values[-1], self._end = "-", resume
                return resume
        raise AssertionError("unreachable: the end token leads to the final state")

    def _skip_comment(self, kind: int, word: str, start: int) -> int:
        """Return the end of a nested comment. Raise TextError if there is no comment here."""
        if kind != self._tables.numbers["COMMENT"]:
            raise unexpected(self._tables, self._states, kind, word, start)
        depth = 0
        for mark in _COMMENT_MARKS.finditer(self._text, start):
            depth += 1 if mark[0] == "/*" else -1
            if not depth:
                return mark.end()
        raise TextError("unterminated comment", start, start + 2, "comments nest: each `/*` needs its own `*/`")
