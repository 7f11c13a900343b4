"""Visiting and rewriting expressions: what comes first, what comes back, and to what depth."""

from collections.abc import Callable

import pytest

from apass.relay.adt import Clause, Constructor, Match, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.expr_functor import ExprFunctor, ExprMutator, ExprVisitor
from apass.relay.function import Function
from apass.relay.ref import RefCreate, RefRead, RefWrite
from apass.relay.ty import GlobalTypeVar

F, G = GlobalVar("f"), GlobalVar("g")
X, Y = Var("x"), Var("y")
CONS = Constructor("Cons", [], GlobalTypeVar("List"))


def chain(length: int) -> Expr:
    """Return calls of `f` nested to a depth."""
    expr: Expr = X
    for _ in range(length):
        expr = Call(F, (expr,))
    return expr


def lets(length: int) -> Expr:
    """Return nested Lets, each bound to a call of the one before."""
    names = [Var(f"v{i}") for i in range(length)]
    expr: Expr = names[-1]
    for var, before in zip(reversed(names), [*reversed(names[:-1]), X], strict=True):
        expr = Let(var, Call(F, (before,)), expr)
    return expr


def every_kind() -> Expr:
    """Return an expression with nodes of all kinds."""
    bound, head, tail = Var("bound"), Var("head"), Var("tail")
    clauses = [
        Clause(PatternConstructor(CONS, [PatternVar(head), PatternTuple([PatternVar(tail), PatternWildcard()])]), tail),
        Clause(PatternWildcard(), Call(CONS, [head])),
    ]
    cell = RefCreate(X)
    written = RefWrite(cell, RefRead(cell))
    op = Op(name="test.functor")
    value = TupleGetItem(Tuple([Call(op, [Constant(1), X]), written]), 0)
    return Function([X], Let(bound, value, If(bound, Call(F, [bound]), Match(X, clauses))))


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


class Rename(ExprMutator):
    """Puts `g` in the place of `f`."""

    def visit_global_var(self, gvar: GlobalVar) -> Expr:
        return G if gvar is F else gvar


class RenameVars(ExprMutator):
    """Makes every variable anew."""

    def visit_var(self, var: Var) -> Expr:
        return Var(f"new_{var.name_hint}")


class Identity(ExprMutator):
    """Changes nothing."""


class SuperMutator(ExprMutator):
    """Changes nothing, by a method of its own."""

    def visit_call(self, call: Call) -> Expr:
        return super().visit_call(call)


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

    with pytest.raises(TypeError, match=r"OnlyVars met <relay\.Tuple> and has no visit_tuple; define it"):
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


@pytest.mark.parametrize("mutator", [Identity, SuperMutator])
def test_what_does_not_change_comes_back_as_the_same_object(mutator: Callable[[], ExprMutator]) -> None:
    expr = every_kind()
    assert mutator().visit(expr) is expr


def test_a_change_makes_anew_what_is_above_it_and_nothing_else() -> None:
    kept, changed = Call(G, [X]), Call(F, [Y])
    made = Rename().visit(Tuple([kept, changed]))
    assert isinstance(made, Tuple)
    assert made.fields[0] is kept
    assert made.fields[1].children == (G, Y)


def test_every_kind_is_made_anew_with_what_it_holds() -> None:
    old = every_kind()
    new = RenameVars().visit(old)
    kinds = list(map(type, nodes_of(old)))
    assert list(map(type, nodes_of(new))) == kinds
    unchanged = {GlobalVar, Constant, Op, Constructor}
    pairs = zip(nodes_of(old), nodes_of(new), strict=True)
    assert {type(a) for a, b in pairs if a is b} == unchanged
    names = [one.name_hint for one in nodes_of(new) if isinstance(one, Var)]
    assert names == [f"new_{one.name_hint}" for one in nodes_of(old) if isinstance(one, Var)]


def nodes_of(expr: Expr) -> list[Expr]:
    """Return the nodes in the order in which they are met from the top, the shared ones once."""
    found = {expr: None}
    work = [expr]
    while work:
        for child in reversed(work.pop().children):
            if child not in found:
                found[child] = None
                work.append(child)
    return list(found)


def test_a_node_made_anew_keeps_attributes_and_forgets_its_type() -> None:
    typed = Call(F, [X], type_args=[], checked_type_=None)
    func = Function([X], typed, attrs={"Primitive": 1})
    made = Rename().visit(func)
    assert isinstance(made, Function)
    assert (made.attrs["Primitive"], made.params, made.checked_type_) == (1, (X,), None)


def test_only_a_variable_can_be_bound() -> None:
    class Break(ExprMutator):
        def visit_var(self, var: Var) -> Expr:
            return Constant(1)

    with pytest.raises(TypeError, match=r"Break made <relay.Constant int64> of <relay.Var %x> where it is bound"):
        Break().visit(Function([X], Y))


def test_mutate_all_gives_back_the_tuple_that_was_given_if_nothing_changed() -> None:
    args = (X, Y)
    mutator = Identity()
    mutator.visit(Tuple(args))
    assert mutator.mutate_all(args) is args
    assert Rename().mutate_all([F, X]) == (G, X)


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
