"""`unmatched_cases`: the values that no clause of a match fits."""

from collections.abc import Sequence
from enum import Enum, auto
from itertools import product

from apass.relay.adt import Match, Pattern, PatternConstructor, PatternTuple, PatternWildcard
from apass.relay.ir.module import IRModule

__all__ = ["unmatched_cases"]


class _Fit(Enum):
    """How a clause's pattern and a candidate, itself a pattern for values, go together."""

    MATCHES = auto()
    """It fits all values of the candidate."""
    CLASHES = auto()
    """It fits none of them."""
    DEPENDS = auto()
    """It fits some: the candidate must be split."""


def unmatched_cases(match: Match, mod: IRModule | None = None) -> list[Pattern]:
    """Return patterns for the values that no clause fits, wildcards for what does not matter; none if all are handled.

    `mod` defines the data types.

    Raises:
        KeyError: if it does not define one that is matched.

    """
    known = mod if mod is not None else IRModule()
    failed: list[Pattern] = []
    candidates: list[Pattern] = [PatternWildcard()]
    while candidates:
        candidate = candidates.pop()
        fits = ((_fit(clause.lhs, candidate), clause.lhs) for clause in match.clauses)
        found = next((one for one in fits if one[0] is not _Fit.CLASHES), None)
        if found is None:
            failed.append(candidate)
        elif found[0] is _Fit.DEPENDS:
            candidates += _split(found[1], candidate, known)
    return failed


def _fit(pattern: Pattern, candidate: Pattern) -> _Fit:
    if not isinstance(pattern, PatternConstructor | PatternTuple):
        return _Fit.MATCHES
    if not isinstance(candidate, PatternConstructor | PatternTuple):
        return _Fit.DEPENDS
    if _head(pattern) != _head(candidate):
        return _Fit.CLASHES
    inner = {_fit(*both) for both in zip(pattern.patterns, candidate.patterns, strict=True)}
    if _Fit.CLASHES in inner:
        return _Fit.CLASHES
    return _Fit.DEPENDS if _Fit.DEPENDS in inner else _Fit.MATCHES


def _head(pattern: PatternConstructor | PatternTuple) -> object:
    """Return what two patterns must have in common to fit the same values."""
    if isinstance(pattern, PatternTuple):
        return len(pattern.patterns)
    return pattern.constructor.belong_to, pattern.constructor.name_hint


def _split(pattern: Pattern, candidate: Pattern, mod: IRModule) -> list[Pattern]:
    """Return candidates that together stand for the same values, each one step nearer to what the pattern asks for."""
    if not isinstance(pattern, PatternConstructor | PatternTuple):
        return [candidate]
    if not isinstance(candidate, PatternConstructor | PatternTuple):
        return _expand(pattern, mod)
    fields = [_split(*both, mod) for both in zip(pattern.patterns, candidate.patterns, strict=True)]
    # The last field changes slowest, as in TVM: the cases come in its order.
    chosen = [tuple(reversed(one)) for one in product(*reversed(fields))]
    return [_like(candidate, one) for one in chosen]


def _expand(pattern: PatternConstructor | PatternTuple, mod: IRModule) -> list[Pattern]:
    """Return the patterns for all values of the type that a pattern is of, as deep as one constructor or tuple."""
    if isinstance(pattern, PatternTuple):
        return [PatternTuple([PatternWildcard() for _ in pattern.patterns])]
    data = mod.get_type_data(pattern.constructor.belong_to)
    return [PatternConstructor(con, [PatternWildcard() for _ in con.inputs]) for con in data.constructors]


def _like(candidate: PatternConstructor | PatternTuple, inner: Sequence[Pattern]) -> Pattern:
    if isinstance(candidate, PatternTuple):
        return PatternTuple(inner)
    return PatternConstructor(candidate.constructor, inner)
