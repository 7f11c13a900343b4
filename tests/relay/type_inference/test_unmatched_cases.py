"""`unmatched_cases`: patterns for the values that no clause of a match handles."""

import pytest

from apass.relay.adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    TypeData,
)
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.ty import GlobalTypeVar, TypeCall, TypeVar
from apass.relay.type_inference.errors import describe_pattern
from apass.relay.type_inference.unmatched_cases import unmatched_cases

LIST, ITEM = GlobalTypeVar("List"), TypeVar("A")
NIL = Constructor("Nil", [], LIST)
CONS = Constructor("Cons", [ITEM, TypeCall(LIST, [ITEM])], LIST)
MODULE = IRModule(type_definitions={LIST: TypeData(LIST, [ITEM], [NIL, CONS])})

ANY = PatternWildcard()
NAMED = PatternVar(var("v"))


def nil() -> Pattern:
    return PatternConstructor(NIL, [])


def cons(head: Pattern, tail: Pattern) -> Pattern:
    return PatternConstructor(CONS, [head, tail])


def both(first: Pattern, second: Pattern) -> Pattern:
    return PatternTuple([first, second])


def unmatched(*patterns: Pattern) -> list[str]:
    match = Match(var("data"), [Clause(pattern, const(1)) for pattern in patterns])
    return [describe_pattern(case) for case in unmatched_cases(match, MODULE)]


@pytest.mark.parametrize(
    "patterns",
    [
        [ANY],
        [NAMED],
        [nil(), cons(ANY, ANY)],
        [nil(), ANY],
        [nil(), cons(ANY, nil()), cons(NAMED, cons(ANY, ANY))],
        [both(ANY, NAMED)],
        [both(nil(), ANY), both(cons(ANY, ANY), nil()), both(ANY, cons(ANY, NAMED))],
        [cons(nil(), ANY), cons(cons(ANY, ANY), nil()), nil(), cons(ANY, cons(ANY, ANY))],
    ],
    ids=lambda patterns: ", ".join(map(describe_pattern, patterns)),
)
def test_complete_match_has_no_unmatched_cases(patterns: list[Pattern]) -> None:
    assert unmatched(*patterns) == []


@pytest.mark.parametrize(
    ("patterns", "cases"),
    [
        ([], ["_"]),
        ([nil()], ["Cons(_, _)"]),
        ([cons(ANY, ANY)], ["Nil"]),
        ([cons(ANY, nil())], ["Cons(_, Cons(_, _))", "Nil"]),
        ([nil(), cons(ANY, nil()), cons(ANY, cons(ANY, nil()))], ["Cons(_, Cons(_, Cons(_, _)))"]),
        ([both(nil(), nil())], ["(Cons(_, _), Cons(_, _))", "(Nil, Cons(_, _))", "(Cons(_, _), Nil)"]),
        ([both(nil(), ANY), both(ANY, nil())], ["(Cons(_, _), Cons(_, _))"]),
        (
            [cons(nil(), nil()), nil()],
            ["Cons(Cons(_, _), Cons(_, _))", "Cons(Nil, Cons(_, _))", "Cons(Cons(_, _), Nil)"],
        ),
    ],
    ids=lambda arg: ", ".join(map(describe_pattern, arg)) if arg and isinstance(arg[0], Pattern) else "",
)
def test_unmatched_cases_are_patterns(patterns: list[Pattern], cases: list[str]) -> None:
    assert unmatched(*patterns) == cases


def test_module_is_required_for_constructors_only() -> None:
    assert unmatched_cases(Match(var("data"), [Clause(both(ANY, NAMED), const(1))])) == []
    with pytest.raises(KeyError, match="no data type named 'List'"):
        unmatched_cases(Match(var("data"), [Clause(nil(), const(1))]))
