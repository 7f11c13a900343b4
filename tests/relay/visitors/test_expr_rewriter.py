"""`ExprRewriter`: bottom-up rewriting with the old and the new node."""

import pytest

from apass.relay.analysis.queries import post_order_visit
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.visitors.expr_rewriter import ExprRewriter, post_order_rewrite, rewrite
from tests.helpers.amounts import levels

F, G = GlobalVar("f"), GlobalVar("g")


class Record(ExprRewriter):
    """Records each call, and replaces `f` by `g`."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Expr, Expr]] = []

    def rewrite_global_var(self, pre: GlobalVar, post: Expr) -> Expr:
        return G if pre is F else post

    def rewrite_call(self, pre: Call, post: Expr) -> Expr:
        self.pairs.append((pre, post))
        return post


class Keep(ExprRewriter):
    """Keeps every node."""


def deep(length: int) -> Expr:
    """Return nested calls of a depth, inside a fifth as many Lets."""
    x = Var("x")
    expr: Expr = x
    for _ in range(length):
        expr = Call(F, [expr])
    for _ in range(length // 5):
        expr = Let(Var("v"), Call(F, [x]), expr)
    return expr


def test_method_receives_old_and_new_node() -> None:
    inner = Call(F, [Var("x")])
    outer = Call(F, [inner])
    record = Record()
    result = rewrite(outer, record)
    assert [pre for pre, _ in record.pairs] == [inner, outer]
    assert result is record.pairs[1][1]
    assert result.children == (G, record.pairs[0][1])


def test_unchanged_nodes_stay_same_objects() -> None:
    x, v = Var("x"), Var("v")
    shared = Call(G, [x])
    expr = Function([x], Let(v, If(x, shared, TupleGetItem(Tuple([shared, Constant(1)]), 0)), v))
    record = Record()
    assert rewrite(expr, record) is expr
    assert record.pairs == [(shared, shared)]
    assert post_order_rewrite(expr, Keep()) is expr


def test_rewritten_node_replaces_all_uses() -> None:
    class Fold(ExprRewriter):
        def rewrite_tuple_getitem(self, pre: TupleGetItem, post: Expr) -> Expr:
            tup = post.children[0]
            return tup.fields[pre.index] if isinstance(tup, Tuple) else post

    x = Var("x")
    nested = Tuple([Tuple([x])])
    field = TupleGetItem(TupleGetItem(nested, 0), 0)
    assert rewrite(Call(F, [field, field]), Fold()).children == (F, x, x)


def test_misspelled_method_raises_at_class_creation() -> None:
    with pytest.raises(TypeError, match=r"unknown visitor method Wrong\.rewrite_cal; did you mean 'rewrite_call'"):
        type("Wrong", (ExprRewriter,), {"rewrite_cal": ExprRewriter.rewrite_call})


def test_rewrite_accepts_deep_expression() -> None:
    expr = deep(5 * levels(20_000))
    assert rewrite(expr, Keep()) is expr
    assert rewrite(expr, Record()) is not expr


def test_post_order_visit_visits_nodes_once() -> None:
    x, y = Var("x"), Var("y")
    shared = Call(F, [x])
    pair = Tuple([shared, Call(G, [shared, y])])
    seen: list[Expr] = []
    post_order_visit(pair, seen.append)
    assert seen == [F, x, shared, G, y, pair.fields[1], pair]
