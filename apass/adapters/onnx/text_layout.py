"""Line breaks for the text of ONNX models, which keep diffs small."""

import re
from itertools import pairwise
from typing import Final

__all__ = ["break_long_lines"]

LONG: Final = 120
"""Maximum number of characters of a line, and of a list in brackets that stays on one line."""

_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|=>|[()\[\]{}<>]|, ')


def break_long_lines(text: str) -> str:
    """Return ONNX's text with each entry of a long list on a separate line.

    ONNX prints all inputs of a graph on one line, and all its initializers on another. A parser reads the result as
    the same model.

    >>> entries = ", ".join(f"float[64] weight_{number}" for number in range(9))
    >>> print(break_long_lines(f"   net ({entries}) => (float[1] out)").splitlines()[-1])
          float[64] weight_8) => (float[1] out)
    """
    return "\n".join(_broken(line) if len(line) > LONG else line for line in text.split("\n"))


def _broken(line: str) -> str:
    indent = "\n" + " " * (len(line) - len(line.lstrip()) + 3)
    cuts: list[int] = []
    depth, opened = 0, 0
    starts: list[int] = []
    for token in _TOKENS.finditer(line):
        match token[0]:
            case "(" | "[" | "{" | "<":
                depth += 1
                if depth == 1:
                    opened, starts = token.end(), [token.end()]
            case ")" | "]" | "}" | ">":
                depth -= 1
                if depth == 0 and token.start() - opened > LONG:
                    cuts += starts
            case ", " if depth == 1:
                starts.append(token.end())
            case _:
                pass
    ends = [*cuts, len(line)]
    return line[: ends[0]] + "".join(indent + line[start:end].strip() for start, end in pairwise(ends))
