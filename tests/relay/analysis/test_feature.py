"""`detect_feature`: the language features that a program uses."""

import pytest

from apass.relay.adt import Clause, Match, PatternConstructor, PatternWildcard
from apass.relay.analysis import detect_feature
from apass.relay.expr import Call, Expr, GlobalVar, If, Let, Tuple, TupleGetItem
from apass.relay.function import Function
from apass.relay.ir.expr import RefCreate, RefRead, RefWrite, const, var
from apass.relay.ir.module import IRModule
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.prelude import Prelude
from tests.helpers.counting import calls_of

X, Y, F = var("x"), var("y"), var("f")
PRELUDE = Prelude()


def names(program: Expr | IRModule, other: IRModule | None = None) -> str:
    return " ".join(feature.name for feature in sorted(detect_feature(program, other)))


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (X, "fVar"),
        (const(1), "fConstant"),
        (Call(GlobalVar("g"), [Tuple([X, X])]), "fVar fGlobalVar fTuple fCall"),
        (TupleGetItem(X, 0), "fVar fTupleGetItem"),
        (add(X, X), "fVar fOp fCall"),
        (If(X, X, X), "fVar fIf"),
        (Let(X, Y, X), "fVar fLet"),
        (Let(F, Function([X], Call(F, [X])), F), "fVar fFunction fCall fLet fLetRec"),
        (Let(F, F, X), "fVar fLet fLetRec"),
        (Let(X, Y, Let(F, X, F)), "fVar fLet"),
        (Let(X, Let(F, Y, Call(F, [X])), X), "fVar fCall fLet fLetRec"),
        (RefWrite(RefCreate(X), RefRead(Y)), "fVar fRefCreate fRefRead fRefWrite"),
        (Match(PRELUDE.nil, [Clause(PatternConstructor(PRELUDE.nil), X)]), "fVar fConstructor fMatch"),
        (Match(X, [Clause(PatternWildcard(), X)]), "fVar fMatch"),
    ],
)
def test_detect_feature_finds_each_kind_of_node(expr: Expr, expected: str) -> None:
    assert names(expr) == expected


def test_graph_feature_requires_shared_non_atomic_expression() -> None:
    shared = add(X, Y)
    assert "fGraph" in names(add(shared, shared)).split()
    assert "fGraph" not in names(add(add(X, Y), add(X, Y))).split()


def test_search_for_recursive_lets_is_linear() -> None:
    def work(depth: int) -> int:
        chain: Expr = X
        for _ in range(depth):
            chain = Let(Y, chain, X)
        return calls_of(lambda: detect_feature(chain))

    assert work(8_000) < 9 * work(1_000)


def test_detect_feature_skips_bodies_of_primitive_functions() -> None:
    assert names(Function([X], add(X, X), attrs={"Primitive": 1})) == "fFunction"


def test_detect_feature_joins_all_functions_of_module() -> None:
    mod = IRModule({"f": Function([X], X), "g": Function([], const(1))})
    assert names(mod) == "fVar fConstant fFunction"
    assert names(TupleGetItem(X, 0), mod) == "fVar fConstant fTupleGetItem fFunction"
