"""Visiting and rewriting expressions: what comes first, what comes back, and to what depth."""

from collections.abc import Callable

import pytest

from apass.relay.adt import Constructor
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.expr_functor import ExprFunctor, ExprMutator, ExprVisitor
from tests.relay.walked import F, G, Identity, Rename, SuperMutator, X, Y, chain, every_kind, lets


class Order(ExprVisitor):
    """Notes calls, constants and variables in the order in which their methods are called."""

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
    """Counts calls."""

    count = 0

    def visit_call(self, call: Call) -> None:
        super().visit_call(call)
        self.count += 1


def test_a_functor_calls_the_method_of_the_kind_and_remembers_the_result() -> None:
    class Size(ExprFunctor[int]):
        calls = 0

        def visit_var(self, var: Var) -> int:
            return 1

        def visit_tuple(self, tup: Tuple) -> int:
            self.calls += 1
            return 1 + sum(self.visit(one) for one in tup.fields)

    size = Size()
    pair = Tuple([X, Y])
    assert (size.visit(Tuple([pair, pair])), size.calls, size.memo_map[pair]) == (7, 2, 3)


def test_a_functor_without_the_method_says_which_it_needs() -> None:
    class OnlyVars(ExprFunctor[None]):
        def visit_var(self, var: Var) -> None:
            return None

    with pytest.raises(NotImplementedError, match=r"OnlyVars met <relay\.Tuple> and has no visit_tuple; define it"):
        OnlyVars().visit(Tuple([X]))


def test_what_is_no_expression_cannot_be_visited() -> None:
    class Other(Expr):
        pass

    with pytest.raises(TypeError, match=r"is no Relay expression; Identity cannot visit it"):
        Identity().visit(Call(F, [Other()]))


@pytest.mark.parametrize("base", [ExprFunctor, ExprVisitor, ExprMutator])
def test_a_misspelt_method_is_an_error_when_the_class_is_created(base: type[object]) -> None:
    with pytest.raises(TypeError, match=r"Wrong\.visit_cal is called for no kind of expression.*visit_call"):
        type("Wrong", (base,), {"visit_cal": ExprMutator.visit_call})


def test_a_misspelt_method_of_a_mixin_is_an_error_too() -> None:
    class Mixin:
        def visit_lets(self, let: Let) -> None: ...

    with pytest.raises(TypeError, match=r"Mixed\.visit_lets.*visit_let"):
        type("Mixed", (Mixin, ExprVisitor), {})


def test_a_shared_node_is_visited_once() -> None:
    order = Order()
    shared = Call(F, [X])
    order.visit(Tuple([shared, shared, Call(G, [shared])]))
    assert order.seen == [F, X, shared, G, order.seen[-1]]


def test_operands_come_before_their_node_from_left_to_right() -> None:
    order = Order()
    left, right = Call(F, [X]), Call(G, [Y])
    whole = Call(F, [left, right])
    order.visit(whole)
    assert order.seen == [F, X, left, G, Y, right, whole]


def test_a_class_that_is_not_operands_first_decides_itself_what_is_below() -> None:
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


def test_a_mutator_that_is_not_operands_first_may_leave_out_what_is_below() -> None:
    class Cut(ExprMutator, operands_first=False):
        def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
            return self.visit(op.tuple_value.children[op.index])

        def visit_constant(self, const: Constant) -> Expr:
            raise AssertionError("the field that nobody asked for was visited")

    call = Call(F, [TupleGetItem(Tuple([X, Constant(1)]), 0)])
    assert Cut().visit(call).children == (F, X)


def test_a_let_is_entered_between_its_value_and_its_body() -> None:
    events: list[str] = []

    class Watch(ExprVisitor):
        def visit_var(self, var: Var) -> None:
            events.append(var.name_hint)

        def pre_visit_let(self, let: Let) -> None:
            events.append(f"enter {let.var.name_hint}")

        def post_visit_let(self, let: Let) -> None:
            super().post_visit_let(let)
            events.append(f"leave {let.var.name_hint}")

    a, b, p, q = (Var(name) for name in "abpq")
    Watch().visit(Let(a, p, Let(b, q, X)))
    assert events == ["p", "enter a", "q", "enter b", "x", "b", "leave b", "a", "leave a"]


def test_what_is_noted_when_a_let_is_entered_holds_in_its_body() -> None:
    class Inline(ExprMutator):
        def pre_visit_let(self, let: Let) -> None:
            self.memo_map[let.var] = self.memo_map[let.value]

        def post_visit_let(self, let: Let) -> Expr:
            return self.memo_map[let.body]

    a, b = Var("a"), Var("b")
    made = Inline().visit(Let(a, Call(F, [X]), Let(b, Call(G, [a]), Tuple([b, a]))))
    assert isinstance(made, Tuple)
    assert made.fields[0].children == (G, made.fields[1])


def test_an_overridden_visit_let_has_the_default_to_call() -> None:
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


def test_an_overridden_visit_is_called_for_every_node_and_enters_each_let_once() -> None:
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


def test_an_overridden_visit_gives_the_results() -> None:
    class OnlyCalls(ExprMutator):
        def visit(self, expr: Expr) -> Expr:
            return Y if expr is X else super().visit(expr)

    made = OnlyCalls().visit(Call(F, [Call(F, [X])]))
    assert made.children[1].children == (F, Y)


def test_a_scoped_node_is_left_to_the_method_that_overrides() -> None:
    class Branch(ExprVisitor):
        def visit_if(self, ite: If) -> None:
            self.visit(ite.true_branch)

    visitor = Branch()
    visitor.visit(Tuple([If(X, Y, Constant(1))]))
    assert [X in visitor.memo_map, Y in visitor.memo_map] == [False, True]


def nested_ifs(length: int) -> Expr:
    """Return Ifs nested to a depth."""
    expr: Expr = X
    for _ in range(length):
        expr = If(Y, expr, X)
    return expr


def test_a_class_may_have_what_is_below_scopes_visited_first_and_define_their_methods() -> None:
    class Fold(ExprMutator, scopes_first=True):
        def visit_if(self, ite: If) -> Expr:
            return self.visit(ite.true_branch)

    class Deeper(Fold):
        """Does the same."""

    assert Fold().visit(nested_ifs(100_000)) is X
    assert Deeper().visit(nested_ifs(100_000)) is X


def test_the_options_of_a_class_hold_for_its_subclasses() -> None:
    class Shallow(ExprVisitor, operands_first=False):
        def visit_call(self, call: Call) -> None:
            """Leave out what is below."""

    class Shallower(Shallow):
        """Does the same."""

    class Deep(Shallow, operands_first=True):
        """Visits what is below."""

    visitors = (Shallow(), Shallower(), Deep())
    for visitor in visitors:
        visitor.visit(Call(F, [X]))
    assert [X in visitor.memo_map for visitor in visitors] == [False, False, True]


def test_a_visitor_goes_over_all_below_whatever_the_kind() -> None:
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
    """Return an expression that is far deeper than Python's recursion limit."""
    return chain(1_000_000) if request.param == "calls" else lets(200_000)


@pytest.mark.parametrize("mutator", [Identity, SuperMutator])
def test_a_mutator_has_no_limit_of_depth(mutator: Callable[[], ExprMutator], deep: Expr) -> None:
    assert mutator().visit(deep) is deep


def test_a_visitor_has_no_limit_of_depth(deep: Expr) -> None:
    visitor = SuperVisitor()
    visitor.visit(deep)
    assert visitor.count == sum(isinstance(node, Call) for node in visitor.memo_map)
    assert visitor.count >= 200_000


def test_a_change_at_the_bottom_has_no_limit_of_depth(deep: Expr) -> None:
    assert Rename().visit(deep) is not deep


def test_an_overridden_visit_has_no_limit_of_depth(deep: Expr) -> None:
    class Count(ExprVisitor):
        count = 0

        def visit(self, expr: Expr) -> None:
            self.count += 1
            super().visit(expr)

    count = Count()
    count.visit(deep)
    assert count.count >= len(count.memo_map)
