"""Conversion of numbers, strings and names to and from Relay's text."""

import re
from typing import Final

import numpy as np

from apass.relay.ir.ndarray import NDArray

__all__ = [
    "DTYPES",
    "KEYWORDS",
    "LiteralError",
    "float_text",
    "integer_of",
    "key_text",
    "name_text",
    "number_of",
    "scalar_of",
    "scalar_text",
    "string_of",
    "string_text",
    "whole_of",
]

DTYPES: Final = re.compile(r"(u?int|float)\d*|bool|bfloat16|handle")
"""Matches the name of an element type."""

KEYWORDS: Final = frozenset(
    [
        "def",
        "extern",
        "type",
        "fn",
        "let",
        "free_var",
        "if",
        "else",
        "match",
        "ref",
        "ref_read",
        "ref_write",
        "True",
        "False",
        "Tensor",
        "_",
    ]
)
"""Reserved words."""

_NUMBER: Final = re.compile(r"(?P<minus>-*)(?P<digits>[\d.]+(?:[eE][+-]?\d+)?)(?P<kind>[iuf]?)(?P<bits>\d*)")
_MOST_CHARACTERS: Final = 1000
"""Maximum length of a number. Python converts decimal digits in quadratic time."""
_KINDS: Final = {"i": "int", "u": "uint", "f": "float"}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_ESCAPE: Final = re.compile(rb"\\([0-7]{1,3}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DOTTED_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)


class LiteralError(ValueError):
    """The text is not a valid number, or the number does not fit its type."""


def float_text(value: float) -> str:
    """Return six digits, as C++ prints them, or the shortest exact text.

    >>> float_text(1e-5), float_text(1.0), float_text(1 / 3)
    ('1e-05', '1', '0.3333333333333333')
    """
    short = f"{value:.6g}"
    return short if float(short) == value else repr(value)


def scalar_text(data: NDArray) -> str | None:
    """Return the inline text of a scalar, or None if it must go into the metadata.

    >>> values = np.float32(0.1), np.int64(3), np.bool_(True), np.float32("nan")
    >>> [scalar_text(NDArray.of(value)) for value in values]
    ['0.1f', '3i64', 'True', None]
    """
    kind, value = str(data.dtype), data.item()
    if kind == "bool":
        return str(value)
    if kind in {"int32", "int64"}:
        return f"{value}i64" if kind == "int64" else str(value)
    if kind not in {"float32", "float64"} or not np.isfinite(value):
        return None
    short = f"{value:.6g}"
    exact = short if data.dtype.type(short) == data else str(data.dtype.type(value))
    return f"{exact}f64" if kind == "float64" else f"{exact}f"


def whole_of(text: str) -> int:
    """Return the integer of digits, perhaps with a sign.

    Raises:
        LiteralError: if the integer needs more than 64 bits.

    """
    value = int(_checked(text))
    if not -(2**63) <= value < 2**64:
        raise LiteralError(f"`{text}` does not fit an integer of 64 bits")
    return value


def number_of(text: str) -> int | float:
    """Return the number of a literal in an attribute, ignoring its suffix.

    Raises:
        LiteralError: if the number is too large.

    >>> number_of("1e-05f"), number_of("-3i64")
    (1e-05, -3)
    """
    if text.isdigit():
        return whole_of(text)
    sign, digits, kind, _ = _split(text)
    return sign * float(digits) if _is_float(digits, kind) else whole_of(f"{'-' * (sign < 0)}{digits}")


def integer_of(text: str) -> int:
    """Return the integer of a literal. Raise LiteralError if it is not an integer."""
    value = number_of(text)
    if isinstance(value, float):
        raise LiteralError(f"`{text}` is not an integer")
    return value


def scalar_of(text: str) -> NDArray:
    """Return the scalar of a literal: `int32` or `float32`, unless it has a suffix.

    As in TVM, an integer that needs more than 32 bits is an `int64`.

    Raises:
        LiteralError: if the suffix is not an element type, or the number does not fit it.

    >>> scalar_of("5"), scalar_of("4000000000"), scalar_of("5i64")
    (NDArray(5, dtype=int32), NDArray(4000000000), NDArray(5))
    """
    sign, digits, kind, bits = _split(text)
    if not kind and digits.isdigit() and not -(2**31) <= sign * int(digits) < 2**31:
        kind, bits = "i", "64"
    dtype = f"{_KINDS[kind or ('f' if _is_float(digits, kind) else 'i')]}{bits or 32}"
    try:
        target = np.dtype(dtype)
    except (TypeError, ValueError):
        raise LiteralError(f"`{text}` has an unknown element type {dtype} as its suffix") from None
    if target.kind == "f":
        with np.errstate(over="ignore"):
            return NDArray.of(np.asarray(sign * float(digits)).astype(target))
    value = sign * _whole(digits, text)
    info = np.iinfo(target)
    if not info.min <= value <= info.max:
        raise LiteralError(f"`{text}` does not fit {dtype}")
    return NDArray.of(np.asarray(value, target))


def _whole(digits: str, text: str) -> int:
    if not digits.isdigit():
        raise LiteralError(f"`{text}` has an integer suffix, but is not an integer")
    return int(digits)


def _checked(text: str) -> str:
    """Return the text of a number, if its conversion is fast."""
    if len(text) > _MOST_CHARACTERS:
        raise LiteralError(f"a number has {len(text)} characters; at most {_MOST_CHARACTERS} are supported")
    return text


def _split(text: str) -> tuple[int, str, str, str]:
    match = _NUMBER.fullmatch(_checked(text))
    if match is None:
        raise LiteralError(f"`{text}` is not a number")
    minus, digits, kind, bits = match.groups()
    return -1 if len(minus) % 2 else 1, digits, kind, bits


def _is_float(digits: str, kind: str) -> bool:
    return kind == "f" or (not kind and not digits.isdigit())


def string_text(value: str) -> str:
    r"""Return a string in quotes, with non-printable bytes escaped as in C++.

    >>> print(string_text('a"b\né'))
    "a\"b\n\303\251"
    """
    return f'"{"".join(map(_byte_text, value.encode(errors="surrogatepass")))}"'


def _byte_text(byte: int) -> str:
    char = chr(byte)
    if char in '"\\':
        return f"\\{char}"
    if " " <= char <= "~":
        return char
    named = next((f"\\{name}" for name, escaped in _ESCAPES.items() if escaped == char), None)
    return named or f"\\{byte:03o}"


def string_of(text: str) -> str:
    """Return the string of a literal in quotes."""
    inner = text[1:-1]
    return _ESCAPE.sub(_unescape, inner.encode()).decode(errors="replace") if "\\" in inner else inner


def _unescape(match: re.Match[bytes]) -> bytes:
    body = match[1]
    if body[0] in b"01234567":
        return bytes([int(body, 8) & 0xFF])
    if len(body) == 3:
        return bytes([int(body[1:], 16)])
    return _ESCAPES.get(body.decode(errors="replace"), "").encode() or body


def key_text(name: str) -> str:
    """Return an attribute name, in quotes if it is a keyword or not an identifier."""
    return name if _DOTTED_NAME.fullmatch(name) and name not in KEYWORDS else string_text(name)


def name_text(name: str, dots: bool = False) -> str:
    """Return a name for use after `%` or `@`, in quotes if it is not an identifier."""
    return name if (_DOTTED_NAME if dots else _NAME).fullmatch(name) else string_text(name)
