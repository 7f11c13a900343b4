"""Patterns of any depth: their variables, rewriting, text, types and passes."""

import pytest

from apass.relay import transform
from apass.relay.adt import Clause, Match, Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from apass.relay.expr import Var
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.parser import parse
from apass.relay.prelude import Prelude
from apass.relay.structural.equality import structural_equal
from apass.relay.text.serialization.load import load_json
from apass.relay.text.serialization.save import save_json
from apass.relay.ty import TensorType
from apass.relay.type_inference.infer import infer_module
from apass.relay.visitors.patterns import pattern_text, rewrite_pattern
from tests.helpers.amounts import levels

DEPTH = levels(100_000)
PRELUDE = Prelude(IRModule())
LIST = PRELUDE.mod.get_global_type_var("List")
NIL, CONS = (PRELUDE.mod.get_constructor("List", name) for name in ("Nil", "Cons"))


def nested(depth: int, innermost: Pattern) -> Pattern:
    """Return a pattern of lists with at least `depth` elements."""
    pattern = innermost
    for _ in range(depth):
        pattern = PatternConstructor(CONS, [PatternWildcard(), pattern])
    return pattern


def rest_of_list(depth: int, complete: bool = False) -> IRModule:
    """Return a function that removes the first elements of a long list."""
    x = var("x", LIST(TensorType((), "int32")))
    rest, short = Var("rest"), Var("short")
    clauses = [Clause(nested(depth, PatternVar(rest)), rest), Clause(PatternVar(short), short)]
    return PRELUDE.mod.with_functions({"main": Function([x], Match(x, clauses, complete))})


def test_variables_are_from_left_to_right() -> None:
    x, y, z = Var("x"), Var("y"), Var("z")
    pattern = PatternTuple([PatternTuple([PatternVar(x), PatternWildcard()]), PatternVar(y), PatternVar(z)])
    assert pattern.bound == (x, y, z)
    assert [type(part).__name__[7:] for part in pattern.parts()] == ["Tuple", "Tuple", "Var", "Wildcard", "Var", "Var"]


def test_rewriting_keeps_unchanged_parts() -> None:
    x, y, new = Var("x"), Var("y"), Var("new")
    left, right = PatternTuple([PatternVar(x)]), PatternConstructor(CONS, [PatternVar(y), PatternWildcard()])
    pattern = PatternTuple([left, right])
    assert rewrite_pattern(pattern, lambda var: var) is pattern
    result = rewrite_pattern(pattern, lambda var: new if var is x else var)
    assert isinstance(result, PatternTuple)
    assert result.patterns[0].bound == (new,)
    assert result.patterns[1] is right


def test_text_of_pattern_is_relay() -> None:
    pattern = PatternTuple([PatternTuple(), PatternConstructor(NIL), nested(1, PatternVar(Var("x")))])
    assert str(pattern) == "((), Nil, Cons(_, %x))"
    assert repr(pattern) == "<relay.PatternTuple>"


def test_deep_pattern_is_no_recursion() -> None:
    x, y = Var("x"), Var("y")
    pattern = nested(DEPTH, PatternVar(x))
    assert pattern.bound == (x,)
    assert rewrite_pattern(pattern, lambda _: y).bound == (y,)
    assert pattern_text(pattern, lambda _: "%x").count("Cons") == DEPTH


def test_deep_pattern_has_text_json_and_type() -> None:
    typed = infer_module(rest_of_list(levels(3_000)))
    assert structural_equal(parse(typed.astext()), typed)
    assert structural_equal(load_json(save_json(typed)), typed)


@pytest.mark.parametrize("name", ["DeadCodeElimination", "Inline", "LambdaLift", "PartialEvaluate", "ToANormalForm"])
@pytest.mark.anyio
async def test_passes_rewrite_deep_pattern(name: str) -> None:
    result = await getattr(transform, name)()(rest_of_list(levels(3_000)))
    values = NIL()
    for number in range(levels(3_000) + 1):
        values = CONS(const(number), values)
    result["rest"] = result["main"]
    result["main"] = Function([], result.get_global_var("rest")(values))
    assert str(evaluate(result)) == "Cons(int32[], Nil())"


def test_check_of_deep_match_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    # The work of the default, a million steps, takes two seconds.
    monkeypatch.setattr("apass.relay.type_inference.unmatched_cases._MOST_WORK", 50_000)
    with pytest.raises(Exception, match="the match has more than 10000 cases to check; write `match\\?`"):
        infer_module(rest_of_list(3000, complete=True))


def test_errors_of_deep_pattern_are_short() -> None:
    x = var("x", shape=())
    match = Match(x, [Clause(nested(3000, PatternWildcard()), const(1))], complete=False)
    with pytest.raises(Exception, match="the pattern `Cons") as caught:
        infer_module(PRELUDE.mod.with_functions({"main": Function([x], match)}))
    assert len(str(caught.value)) < 5000
