"""`unmatched_cases`: finds the values that no clause of a match handles."""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from itertools import product
from math import prod
from typing import Final

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.adt import Match, Pattern, PatternConstructor, PatternTuple, PatternWildcard
from apass.relay.ir.module import IRModule
from apass.relay.visitors.patterns import with_parts
from apass.relay.visitors.recursion import Walk, walk_deep

__all__ = ["unmatched_cases"]


_MOST_CASES: Final = 10_000
"""Maximum number of cases to check."""
_MOST_WORK: Final = 1_000_000
"""Maximum of the sum of their nesting. A deep pattern takes quadratic time."""


class _Fit(Enum):
    """The relation between the pattern of a clause and a candidate pattern."""

    MATCHES = auto()
    """The clause matches all values of the candidate."""
    CLASHES = auto()
    """The clause matches no value of the candidate."""
    DEPENDS = auto()
    """The clause matches some values, so the candidate must be split."""


def unmatched_cases(match: Match, mod: IRModule | None = None) -> list[Pattern]:
    """Return patterns for the values that no clause matches, in TVM's order.

    Irrelevant parts are wildcards. The list is empty if the match is complete. `mod` defines the data types.

    Raises:
        KeyError: if a matched data type is not defined.
        TypeInferenceError: if there are too many cases to check. Their number can be exponential in that of clauses.

    """
    context = mod if mod is not None else IRModule()
    failed: list[Pattern] = []
    patterns = [clause.lhs for clause in match.clauses]
    by_head, headless = _by_head(patterns)
    candidates: list[tuple[Pattern, int]] = [(PatternWildcard(), 1)]  # each with its nesting
    checked = work = 0
    while candidates:
        candidate, nesting = candidates.pop()
        checked += 1
        work += nesting
        if checked > _MOST_CASES or work > _MOST_WORK:
            raise _too_many()
        possible: Sequence[Pattern] = patterns
        if isinstance(candidate, PatternConstructor | PatternTuple):
            possible = by_head.get(_head(candidate), headless)
        fits = ((_fit(pattern, candidate), pattern) for pattern in possible)
        first = next((entry for entry in fits if entry[0] is not _Fit.CLASHES), None)
        if first is None:
            failed.append(candidate)
        elif first[0] is _Fit.DEPENDS:
            candidates += [(part, nesting + 1) for part in walk_deep(_split(first[1], candidate, context))]
    return failed


def _by_head(patterns: Sequence[Pattern]) -> tuple[Mapping[object, Sequence[Pattern]], Sequence[Pattern]]:
    """Return the patterns that may match each head, and those that match any.

    They keep their order. Without this table, a match with a clause for each of n constructors would take time
    proportional to n².
    """
    by_head: dict[object, list[Pattern]] = {}
    headless: list[Pattern] = []
    for pattern in patterns:
        if isinstance(pattern, PatternConstructor | PatternTuple):
            by_head.setdefault(_head(pattern), headless.copy()).append(pattern)
        else:
            for others in (*by_head.values(), headless):
                others.append(pattern)
    return by_head, headless


def _fit(pattern: Pattern, candidate: Pattern) -> _Fit:
    fit = _Fit.MATCHES
    stack = [(pattern, candidate)]
    while stack:
        part, other = stack.pop()
        if not isinstance(part, PatternConstructor | PatternTuple):
            continue
        if not isinstance(other, PatternConstructor | PatternTuple):
            fit = _Fit.DEPENDS
        elif _head(part) != _head(other):
            return _Fit.CLASHES
        else:
            stack += zip(part.patterns, other.patterns, strict=True)
    return fit


def _head(pattern: PatternConstructor | PatternTuple) -> object:
    """Return the part of a pattern that must be equal for two patterns to overlap."""
    if isinstance(pattern, PatternTuple):
        return len(pattern.patterns)
    return pattern.constructor.belong_to, pattern.constructor.name_hint


def _split(pattern: Pattern, candidate: Pattern, mod: IRModule) -> Walk[list[Pattern]]:
    """Return candidates that cover the same values, one level closer to `pattern`."""
    if not isinstance(pattern, PatternConstructor | PatternTuple):
        return [candidate]
    if not isinstance(candidate, PatternConstructor | PatternTuple):
        if isinstance(pattern, PatternTuple):
            return [PatternTuple([PatternWildcard() for _ in pattern.patterns])]
        data = mod.get_type_data(pattern.constructor.belong_to)
        return [PatternConstructor(con, [PatternWildcard() for _ in con.inputs]) for con in data.constructors]
    fields: list[list[Pattern]] = []
    for part, other in zip(pattern.patterns, candidate.patterns, strict=True):
        fields.append((yield _split(part, other, mod)))
    if prod(map(len, fields)) > _MOST_CASES:
        raise _too_many()
    # The last field varies slowest, which is TVM's order of cases.
    return [with_parts(candidate, parts[::-1]) for parts in product(*reversed(fields))]


def _too_many() -> TypeInferenceError:
    return TypeInferenceError(f"the match has more than {_MOST_CASES} cases to check; write `match?` to skip the check")
