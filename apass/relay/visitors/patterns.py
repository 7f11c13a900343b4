"""Patterns of matches: rewriting and text, without a depth limit."""

from collections.abc import Callable, Sequence
from operator import is_

from apass.relay.ir.adt import Pattern, PatternConstructor, PatternTuple, PatternVar
from apass.relay.ir.expr import Var
from apass.relay.visitors.recursion import Walk, walk_deep

__all__ = ["pattern_text", "rewrite_pattern", "with_parts"]


def rewrite_pattern(pattern: Pattern, variable: Callable[[Var], Var]) -> Pattern:
    """Return a pattern with its variables replaced, from left to right.

    If no variable changes, the pattern itself is returned.

    >>> x, y = Var("x"), Var("y")
    >>> rewrite_pattern(PatternTuple([PatternVar(x)]), lambda var: y).bound
    (<relay.Var %y>,)
    """
    return walk_deep(_rewritten(pattern, variable))


def _rewritten(pattern: Pattern, variable: Callable[[Var], Var]) -> Walk[Pattern]:
    if isinstance(pattern, PatternVar):
        var = variable(pattern.var)
        return pattern if var is pattern.var else PatternVar(var)
    if not isinstance(pattern, PatternConstructor | PatternTuple):
        return pattern
    parts: list[Pattern] = []
    for part in pattern.patterns:
        parts += [(yield _rewritten(part, variable))]
    return with_parts(pattern, parts)


def with_parts(pattern: PatternConstructor | PatternTuple, parts: Sequence[Pattern]) -> Pattern:
    """Return a pattern with other parts, or the pattern itself if they are the same."""
    if len(parts) == len(pattern.patterns) and all(map(is_, parts, pattern.patterns)):
        return pattern
    return PatternTuple(parts) if isinstance(pattern, PatternTuple) else PatternConstructor(pattern.constructor, parts)


def pattern_text(pattern: Pattern, variable: Callable[[Var], str]) -> str:
    """Return Relay's text of a pattern, with the texts of its variables.

    >>> pattern_text(PatternTuple([PatternVar(Var("x")), PatternTuple()]), lambda var: f"%{var.name_hint}")
    '(%x, ())'
    """
    texts: list[str] = []
    stack: list[Pattern | str] = [pattern]
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, PatternVar):
            texts.append(variable(part.var))
        elif not isinstance(part, PatternConstructor | PatternTuple):
            texts.append("_")
        else:
            if isinstance(part, PatternConstructor):
                texts.append(part.constructor.name_hint)
            if part.patterns or isinstance(part, PatternTuple):
                separated = [item for inner in part.patterns for item in (", ", inner)][1:]
                stack += [")", *reversed(separated), "("]
    return "".join(texts)
