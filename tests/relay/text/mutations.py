"""Mutations of Relay texts: of characters, and of tokens."""

import re
from typing import Final

from hypothesis import strategies as st

__all__ = ["mutated"]

_TOKEN: Final = re.compile(r"\s+|[\w.%@]+|\"[^\"]*\"|.", re.DOTALL)
_NUMBER: Final = re.compile(r"\d+")
EXTREMES: Final = (
    "0", "-1", "1e999", "2147483648", "9223372036854775807", "9223372036854775808", "1" * 1001, "0.5", "1i8", "?", "()",
)  # fmt: skip
"""Texts that replace numbers."""
WORDS: Final = (
    "fn", "let", "if", "else", "match", "ref", "True", "_", "Tensor", "float32", "int64", "bool", "bfloat16", "%0",
    "%x", "@main", "meta[relay.Constant][0]", "nn.conv2d", "reshape", "axis=", "{", "}", "(", ")", "[", "]", ",", ";",
    "->", "=", "\ud800", "\0", "/*", "*/", '"', "None", "inf", '"x"', "[1, 2]", "-", "free_var", "type", "def", "é",
)  # fmt: skip
"""Tokens that are inserted."""


@st.composite
def mutated(draw: st.DrawFn, texts: list[str]) -> str:
    """Draw a text with one to four mutations."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["number", "number", "swap", "insert", "delete", "repeat", "splice", "character"]))
        text = _mutation(draw, kind, text, texts)
    return text


def _mutation(draw: st.DrawFn, kind: str, text: str, texts: list[str]) -> str:
    if kind == "number":
        numbers = list(_NUMBER.finditer(text))
        if not numbers:
            return text
        number = draw(st.sampled_from(numbers))
        return f"{text[: number.start()]}{draw(st.sampled_from(EXTREMES))}{text[number.end() :]}"
    if kind == "splice":
        other = draw(st.sampled_from(texts))
        return text[: draw(st.integers(0, len(text)))] + other[draw(st.integers(0, len(other))) :]
    if kind == "character":
        index = draw(st.integers(0, len(text)))
        return text[:index] + draw(st.characters()) + text[index + 1 :]
    return _token_mutation(draw, kind, _TOKEN.findall(text))


def _token_mutation(draw: st.DrawFn, kind: str, tokens: list[str]) -> str:
    first, second = (draw(st.integers(0, len(tokens))) for _ in range(2))
    low, high = min(first, second), max(first, second)
    if kind == "insert":
        tokens.insert(first, draw(st.sampled_from(WORDS)))
    elif kind == "delete":
        del tokens[low : min(high, low + 8)]
    elif kind == "repeat":
        tokens[high:high] = tokens[low : low + 8]
    elif high < len(tokens):
        tokens[low], tokens[high] = tokens[high], tokens[low]
    return "".join(tokens)
