"""Rewriting bottom up, with both the old and the new node at hand."""

import pytest

from apass.relay.analysis.visit import post_order_visit
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.visitors.expr_rewriter import ExprRewriter, post_order_rewrite, rewrite

F, G = GlobalVar("f"), GlobalVar("g")


class Record(ExprRewriter):
    """Notes each call and variable, and puts `g` in the place of `f`."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Expr, Expr]] = []

    def rewrite_global_var(self, pre: GlobalVar, post: Expr) -> Expr:
        return G if pre is F else post

    def rewrite_call(self, pre: Call, post: Expr) -> Expr:
        self.pairs.append((pre, post))
        return post


class Keep(ExprRewriter):
    """Changes nothing."""


def deep(length: int) -> Expr:
    """Return calls nested to a depth, in the last of as many Lets."""
    x = Var("x")
    expr: Expr = x
    for _ in range(length):
        expr = Call(F, [expr])
    for _ in range(length // 5):
        expr = Let(Var("v"), Call(F, [x]), expr)
    return expr


def test_a_method_gets_the_old_node_and_the_new_one() -> None:
    inner = Call(F, [Var("x")])
    outer = Call(F, [inner])
    record = Record()
    made = rewrite(outer, record)
    assert [pre for pre, _ in record.pairs] == [inner, outer]
    assert made is record.pairs[1][1]
    assert made.children == (G, record.pairs[0][1])


def test_what_nobody_changes_is_the_same_object_before_and_after() -> None:
    x, v = Var("x"), Var("v")
    shared = Call(G, [x])
    expr = Function([x], Let(v, If(x, shared, TupleGetItem(Tuple([shared, Constant(1)]), 0)), v))
    record = Record()
    assert rewrite(expr, record) is expr
    assert record.pairs == [(shared, shared)]
    assert post_order_rewrite(expr, Keep()) is expr


def test_a_rewritten_node_takes_its_place_everywhere() -> None:
    class Fold(ExprRewriter):
        def rewrite_tuple_getitem(self, pre: TupleGetItem, post: Expr) -> Expr:
            tup = post.children[0]
            return tup.fields[pre.index] if isinstance(tup, Tuple) else post

    x = Var("x")
    nested = Tuple([Tuple([x])])
    field = TupleGetItem(TupleGetItem(nested, 0), 0)
    assert rewrite(Call(F, [field, field]), Fold()).children == (F, x, x)


def test_a_misspelt_method_is_an_error_when_the_class_is_created() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.rewrite_cal is called for no kind.*rewrite_call"):
        type("Wrong", (ExprRewriter,), {"rewrite_cal": ExprRewriter.rewrite_call})


def test_rewriting_has_no_limit_of_depth() -> None:
    expr = deep(300_000)
    assert rewrite(expr, Keep()) is expr
    assert rewrite(expr, Record()) is not expr


def test_every_node_is_visited_once_in_post_order() -> None:
    x, y = Var("x"), Var("y")
    shared = Call(F, [x])
    pair = Tuple([shared, Call(G, [shared, y])])
    seen: list[Expr] = []
    post_order_visit(pair, seen.append)
    assert seen == [F, x, shared, G, y, pair.fields[1], pair]
