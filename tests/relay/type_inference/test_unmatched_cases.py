"""`unmatched_cases`: the values that no clause of a match fits, as patterns."""

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
from apass.relay.ir.module import IRModule
from apass.relay.make import const, var
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
    match = Match(var("data"), [Clause(one, const(1)) for one in patterns])
    return [describe_pattern(one) for one in unmatched_cases(match, MODULE)]


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
def test_nothing_is_left_of_what_is_handled(patterns: list[Pattern]) -> None:
    assert unmatched(*patterns) == []


@pytest.mark.parametrize(
    ("patterns", "left"),
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
    ids=lambda one: ", ".join(map(describe_pattern, one)) if one and isinstance(one[0], Pattern) else "",
)
def test_what_is_left_is_told_in_patterns(patterns: list[Pattern], left: list[str]) -> None:
    assert unmatched(*patterns) == left


def test_a_module_is_needed_for_constructors_alone() -> None:
    assert unmatched_cases(Match(var("data"), [Clause(both(ANY, NAMED), const(1))])) == []
    with pytest.raises(KeyError, match="no data type named 'List'"):
        unmatched_cases(Match(var("data"), [Clause(nil(), const(1))]))
