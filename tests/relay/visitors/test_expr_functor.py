"""Visitors and mutators of expressions: order, results and depth."""

from collections.abc import Callable

import pytest

from apass.relay.adt import Constructor
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.expr_functor import ExprFunctor, ExprMutator, ExprVisitor
from tests.helpers.amounts import levels
from tests.helpers.relay.walked import F, G, Identity, Rename, SuperMutator, X, Y, chain, every_kind, lets


class Order(ExprVisitor):
    """Records calls and variables in visiting order."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Expr] = []

    def visit_call(self, call: Call) -> None:
        super().visit_call(call)
        self.seen.append(call)

    def visit_var(self, var: Var) -> None:
        self.seen.append(var)

    def visit_global_var(self, gvar: GlobalVar) -> None:
        self.seen.append(gvar)


class SuperVisitor(ExprVisitor):
    """Counts calls, using the inherited method."""

    count = 0

    def visit_call(self, call: Call) -> None:
        super().visit_call(call)
        self.count += 1


def test_functor_dispatches_and_stores_results() -> None:
    class Size(ExprFunctor[int]):
        calls = 0

        def visit_var(self, var: Var) -> int:
            return 1

        def visit_tuple(self, tup: Tuple) -> int:
            self.calls += 1
            return 1 + sum(self.visit(field) for field in tup.fields)

    size = Size()
    pair = Tuple([X, Y])
    assert (size.visit(Tuple([pair, pair])), size.calls, size.memo_map[pair]) == (7, 2, 3)


def test_missing_method_raises() -> None:
    class OnlyVars(ExprFunctor[None]):
        def visit_var(self, var: Var) -> None:
            return None

    with pytest.raises(NotImplementedError, match=r"^OnlyVars cannot visit <relay\.Tuple>: define visit_tuple$"):
        OnlyVars().visit(Tuple([X]))


def test_unknown_expression_class_raises() -> None:
    class Other(Expr):
        pass

    with pytest.raises(TypeError, match=r"^Identity cannot visit <relay.Other>: expected a Relay expression$"):
        Identity().visit(Call(F, [Other()]))


@pytest.mark.parametrize("base", [ExprFunctor, ExprVisitor, ExprMutator])
def test_misspelled_method_raises_at_class_creation(base: type[object]) -> None:
    with pytest.raises(TypeError, match=r"unknown visitor method Wrong\.visit_cal; did you mean 'visit_call'"):
        type("Wrong", (base,), {"visit_cal": ExprMutator.visit_call})


def test_misspelled_method_of_mixin_raises() -> None:
    class Mixin:
        def visit_lets(self, let: Let) -> None: ...

    with pytest.raises(TypeError, match=r"Mixed\.visit_lets.*visit_let"):
        type("Mixed", (Mixin, ExprVisitor), {})


def test_shared_node_is_visited_once() -> None:
    order = Order()
    shared = Call(F, [X])
    order.visit(Tuple([shared, shared, Call(G, [shared])]))
    assert order.seen == [F, X, shared, G, order.seen[-1]]


def test_operands_are_visited_first_in_order() -> None:
    order = Order()
    left, right = Call(F, [X]), Call(G, [Y])
    whole = Call(F, [left, right])
    order.visit(whole)
    assert order.seen == [F, X, left, G, Y, right, whole]


def test_operands_first_false_visits_no_operands() -> None:
    class Outermost(ExprVisitor, operands_first=False):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[Expr] = []

        def visit_call(self, call: Call) -> None:
            self.seen.append(call)

    inner = Call(F, [X])
    outer = Call(F, [inner])
    visitor = Outermost()
    visitor.visit(Tuple([outer, outer]))
    assert (visitor.seen, inner in visitor.memo_map) == ([outer], False)


def test_operands_first_false_lets_mutator_skip_operands() -> None:
    class Cut(ExprMutator, operands_first=False):
        def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
            return self.visit(op.tuple_value.children[op.index])

        def visit_constant(self, const: Constant) -> Expr:
            raise AssertionError("visited a field that the mutator skips")

    call = Call(F, [TupleGetItem(Tuple([X, Constant(1)]), 0)])
    assert Cut().visit(call).children == (F, X)


def test_pre_visit_let_runs_before_body() -> None:
    events: list[str] = []

    class EventRecorder(ExprVisitor):
        def visit_var(self, var: Var) -> None:
            events.append(var.name_hint)

        def pre_visit_let(self, let: Let) -> None:
            events.append(f"enter {let.var.name_hint}")

        def post_visit_let(self, let: Let) -> None:
            super().post_visit_let(let)
            events.append(f"leave {let.var.name_hint}")

    a, b, p, q = (Var(name) for name in "abpq")
    EventRecorder().visit(Let(a, p, Let(b, q, X)))
    assert events == ["p", "enter a", "q", "enter b", "x", "b", "leave b", "a", "leave a"]


def test_pre_visit_let_result_applies_to_body() -> None:
    class Inline(ExprMutator):
        def pre_visit_let(self, let: Let) -> None:
            self.memo_map[let.var] = self.memo_map[let.value]

        def post_visit_let(self, let: Let) -> Expr:
            return self.memo_map[let.body]

    a, b = Var("a"), Var("b")
    result = Inline().visit(Let(a, Call(F, [X]), Let(b, Call(G, [a]), Tuple([b, a]))))
    assert isinstance(result, Tuple)
    assert result.fields[0].children == (G, result.fields[1])


def test_overridden_visit_let_may_call_default() -> None:
    class Count(ExprVisitor):
        count = 0

        def visit_let(self, let: Let) -> None:
            self.count += 1
            super().visit_let(let)

        def pre_visit_let(self, let: Let) -> None:
            self.count += 100

    count = Count()
    count.visit(Let(Var("a"), X, Let(Var("b"), Y, X)))
    assert count.count == 202


def test_overridden_visit_is_called_for_every_node() -> None:
    class Every(ExprMutator):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[Expr] = []
            self.entered: list[Let] = []

        def visit(self, expr: Expr) -> Expr:
            self.seen.append(expr)
            return super().visit(expr)

        def pre_visit_let(self, let: Let) -> None:
            self.entered.append(let)

    a, b = Var("a"), Var("b")
    call = Call(F, [X])
    inner = Let(b, call, b)
    outer = Let(a, Y, inner)
    every = Every()
    assert every.visit(outer) is outer
    assert set(every.seen) == {outer, inner, call, F, X, Y, a, b}
    assert every.entered == [outer, inner]


def test_overridden_visit_replaces_results() -> None:
    class OnlyCalls(ExprMutator):
        def visit(self, expr: Expr) -> Expr:
            return Y if expr is X else super().visit(expr)

    result = OnlyCalls().visit(Call(F, [Call(F, [X])]))
    assert result.children[1].children == (F, Y)


def test_overridden_method_decides_what_scope_visits() -> None:
    class Branch(ExprVisitor):
        def visit_if(self, ite: If) -> None:
            self.visit(ite.true_branch)

    visitor = Branch()
    visitor.visit(Tuple([If(X, Y, Constant(1))]))
    assert [X in visitor.memo_map, Y in visitor.memo_map] == [False, True]


def nested_ifs(length: int) -> Expr:
    """Return nested Ifs of a depth."""
    expr: Expr = X
    for _ in range(length):
        expr = If(Y, expr, X)
    return expr


def test_scopes_first_visits_children_of_scopes_first() -> None:
    class Fold(ExprMutator, scopes_first=True):
        def visit_if(self, ite: If) -> Expr:
            return self.visit(ite.true_branch)

    class Deeper(Fold):
        """Inherits the option."""

    assert Fold().visit(nested_ifs(100_000)) is X
    assert Deeper().visit(nested_ifs(100_000)) is X


def test_subclasses_inherit_options() -> None:
    class Shallow(ExprVisitor, operands_first=False):
        def visit_call(self, call: Call) -> None:
            """Skip the operands."""

    class Shallower(Shallow):
        """Inherits the option."""

    class Deep(Shallow, operands_first=True):
        """Visits the operands."""

    visitors = (Shallow(), Shallower(), Deep())
    for visitor in visitors:
        visitor.visit(Call(F, [X]))
    assert [X in visitor.memo_map for visitor in visitors] == [False, False, True]


def test_visitor_visits_every_kind_of_child() -> None:
    class Kinds(ExprVisitor):
        def __init__(self) -> None:
            super().__init__()
            self.kinds: set[str] = set()

        def visit_var(self, var: Var) -> None:
            self.kinds.add(var.name_hint)

        def visit_constant(self, const: Constant) -> None:
            self.kinds.add("constant")

        def visit_constructor(self, con: Constructor) -> None:
            self.kinds.add("constructor")

        def visit_op(self, op: Op) -> None:
            self.kinds.add("op")

    visitor = Kinds()
    visitor.visit(every_kind())
    assert visitor.kinds == {"x", "bound", "head", "tail", "constant", "constructor", "op"}


@pytest.fixture(scope="module", params=["calls", "lets"])
def deep(request: pytest.FixtureRequest) -> Expr:
    """Return an expression far deeper than Python's recursion limit."""
    return chain(levels(200_000)) if request.param == "calls" else lets(levels(50_000))


@pytest.mark.parametrize("mutator", [Identity, SuperMutator])
def test_mutator_accepts_deep_expression(mutator: Callable[[], ExprMutator], deep: Expr) -> None:
    assert mutator().visit(deep) is deep


def test_visitor_accepts_deep_expression(deep: Expr) -> None:
    visitor = SuperVisitor()
    visitor.visit(deep)
    assert visitor.count == sum(isinstance(node, Call) for node in visitor.memo_map)
    assert visitor.count >= levels(50_000)


def test_mutator_propagates_change_through_deep_expression(deep: Expr) -> None:
    assert Rename().visit(deep) is not deep


def test_overridden_visit_accepts_deep_expression(deep: Expr) -> None:
    class Count(ExprVisitor):
        count = 0

        def visit(self, expr: Expr) -> None:
            self.count += 1
            super().visit(expr)

    count = Count()
    count.visit(deep)
    assert count.count >= len(count.memo_map)
