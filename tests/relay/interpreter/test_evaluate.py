"""The evaluator: results and evaluation order."""

from collections.abc import Callable

import numpy as np

from apass.relay.adt import (
    Clause,
    Match,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
)
from apass.relay.expr import Call, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.interpreter.values import ADTValue, FunctionValue, RefValue
from apass.relay.ir.expr import RefCreate, RefRead, RefWrite, const, var
from apass.relay.ir.module import IRModule
from apass.relay.op.elementwise.arithmetic import add, divide, multiply, subtract
from apass.relay.op.elementwise.compare import equal
from apass.relay.op.elementwise.math import log, negative
from apass.relay.prelude import Prelude
from apass.relay.ty import Any
from tests.helpers.relay.evaluation import CONS, NIL, ONE, F, N, X, Y, count_down, plain


def in_sequence(*exprs: Expr) -> Expr:
    """Return Lets that evaluate expressions in order, with the value of the last."""
    *first, result = exprs
    for expr in reversed(first):
        result = Let(var("_"), expr, result)
    return result


def with_counter(program: Callable[[Expr, Callable[[], Expr]], Expr]) -> object:
    """Evaluate `program(cell, count)`. Return its value and the content of the cell.

    Each call of `count` returns a new expression that adds 1 to the cell.
    """
    cell = var("cell")

    def count() -> Expr:
        return RefWrite(cell, add(RefRead(cell), ONE))

    result = var("result")
    after = Let(result, program(cell, count), Tuple([result, RefRead(cell)]))
    return plain(evaluate(Let(cell, RefCreate(const(0)), after)))


def test_scalar_is_array_without_dimensions() -> None:
    value = evaluate(add(const(1.5), const(2.0)))
    assert isinstance(value, np.ndarray)
    assert (value.shape, str(value.dtype), value.item()) == ((), "float32", 3.5)
    assert type(value) is np.ndarray


def test_tuples_and_fields_are_evaluated() -> None:
    pair = Tuple([X, Tuple([]), ONE])
    assert plain(evaluate(Function([X], Tuple([pair, TupleGetItem(pair, 2)])), 7)) == ((7, (), 1), 1)


def test_arguments_are_converted_to_arrays() -> None:
    x, y = var("x", shape=(2,)), var("y")
    func = Function([x, y], Tuple([x, y]))
    assert plain(evaluate(func, [1, 2], (1.5, True, np.arange(2)))) == ([1.0, 2.0], (1.5, True, [0, 1]))
    assert plain(evaluate(func, np.ones(2, "float32"), np.float64(2))) == ([1.0, 1.0], 2.0)


def test_named_arguments_follow_positional_arguments() -> None:
    func = Function([X, Y], subtract(X, Y))
    results = [evaluate(func, 5, 3), evaluate(func, 5, y=3), evaluate(func, y=3, x=5)]
    assert [plain(result) for result in results] == [2, 2, 2]


def test_free_variables_are_parameters() -> None:
    assert plain(evaluate(subtract(X, Y), 5, 3)) == 2


def test_unknown_dimension_accepts_any_size() -> None:
    x = var("x", shape=(Any(), 2))
    assert plain(evaluate(Function([x], x), [[1.0, 2.0]])) == [[1.0, 2.0]]


def test_main_of_module_is_evaluated() -> None:
    assert plain(evaluate(IRModule.from_expr(add(X, ONE)), 1)) == 2


def test_expression_calls_functions_of_module() -> None:
    mod = IRModule({GlobalVar("f"): Function([X], add(X, X))})
    assert plain(evaluate(Call(GlobalVar("f"), [const(3)]), mod=mod)) == 6


def test_function_without_arguments_is_callable_value() -> None:
    adder = evaluate(Function([X], Function([Y], add(X, Y))))
    assert isinstance(adder, FunctionValue)
    inner = adder(3)
    assert isinstance(inner, FunctionValue)
    assert (plain(inner(4)), repr(adder)) == (7, "<fn (x)>")


def test_function_without_parameters_is_called() -> None:
    assert plain(evaluate(Function([], ONE))) == 1


def test_closure_captures_values() -> None:
    make = Function([X], Function([], Function([Y], Tuple([X, Y]))))
    program = Let(F, make, Tuple([Call(Call(Call(F, [const(number)]), []), [const(9)]) for number in (1, 2)]))
    assert plain(evaluate(program)) == ((1, 9), (2, 9))


def test_recursive_let_is_evaluated() -> None:
    program = Let(F, count_down(F, ONE, lambda rest: multiply(N, rest)), Call(F, [const(5)]))
    assert plain(evaluate(program)) == 120


def test_recursive_function_in_closure_is_evaluated() -> None:
    def further(rest: Expr) -> Expr:
        return Call(Function([Y], add(Y, Call(Function([], rest), []))), [X])

    program = Let(F, count_down(F, const(0), further), Call(F, [const(5)]))
    assert plain(evaluate(program, 3)) == 15


def test_mutually_recursive_functions_are_evaluated() -> None:
    even, odd = GlobalVar("even"), GlobalVar("odd")
    mod = IRModule({even: count_down(odd, const(True), lambda rest: rest)})
    mod[odd] = count_down(even, const(False), lambda rest: rest)
    mod["main"] = Function([N], Call(even, [N]))
    assert [plain(evaluate(mod, number)) for number in (0, 1, 7, 10)] == [True, False, False, True]


def test_primitive_function_is_evaluated() -> None:
    func = Function([X], add(X, ONE)).with_attr("Primitive", 1)
    assert plain(evaluate(Call(func, [const(1)]))) == 2


def test_operators_and_constructors_are_function_values() -> None:
    apply = Function([F, X], Call(F, [X, X]))
    assert plain(evaluate(Call(apply, [Op.get("add"), const(2)]))) == 4
    assert plain(evaluate(Call(apply, [CONS, const(2)]))) == ("Cons", 2, 2)
    shown = evaluate(Tuple([Op.get("add"), CONS]))
    assert plain(shown) == ("<op add>", "<constructor Cons>")


def test_shared_expression_is_evaluated_once() -> None:
    def program(_: Expr, count: Callable[[], Expr]) -> Expr:
        shared = count()
        return Tuple([shared, shared, count()])

    assert with_counter(program) == (((), (), ()), 2)


def test_shared_expression_is_evaluated_once_per_call() -> None:
    def program(_: Expr, count: Callable[[], Expr]) -> Expr:
        shared = count()
        return Let(F, Function([], Tuple([shared, shared])), in_sequence(Call(F, []), Call(F, []), ONE))

    assert with_counter(program) == (1, 2)


def test_expression_shared_by_functions_is_evaluated_once() -> None:
    def program(_: Expr, count: Callable[[], Expr]) -> Expr:
        shared = count()
        calls = [Call(Function([], shared), []), Call(Function([], shared), [])]
        return in_sequence(*calls, *calls, ONE)

    assert with_counter(program) == (1, 1)


def test_only_chosen_branch_is_evaluated() -> None:
    def program(cell: Expr, count: Callable[[], Expr]) -> Expr:
        return in_sequence(If(const(False), count(), Tuple([])), If(const(True), count(), RefWrite(cell, X)), ONE)

    assert with_counter(lambda cell, count: Let(X, const(50), program(cell, count))) == (1, 1)


def test_expression_shared_by_branches_is_evaluated_once() -> None:
    def program(cell: Expr, count: Callable[[], Expr]) -> Expr:
        shared = count()
        choice = If(equal(RefRead(cell), const(0)), Tuple([shared, ONE]), Tuple([shared, const(2)]))
        return Tuple([choice, RefRead(cell), shared])

    assert with_counter(program) == ((((), 1), 1, ()), 1)


def test_callee_is_evaluated_after_arguments() -> None:
    cell = var("cell")

    def note(digit: int, result: Expr) -> Expr:
        return in_sequence(RefWrite(cell, add(multiply(RefRead(cell), const(10)), const(digit))), result)

    func = Function([X, Y], note(6, add(X, Y)))
    program = Tuple(
        [note(1, N), Call(note(4, func), [note(2, ONE), note(3, ONE)]), If(note(7, const(True)), note(8, N), N)]
    )
    after = Let(var("_"), program, RefRead(cell))
    assert plain(evaluate(Let(cell, RefCreate(const(0)), after), n=5)) == 1234678


def test_cell_is_value() -> None:
    cell = evaluate(RefCreate(ONE))
    assert isinstance(cell, RefValue)
    assert plain(evaluate(RefRead(F), cell)) == 1
    assert plain(evaluate(RefWrite(F, const(2)), cell)) == ()
    assert (repr(cell), plain(cell.value)) == ("ref(int32[])", 2)


def test_inner_binding_shadows_outer_binding() -> None:
    inner = Let(X, const(2), add(X, const(0)))
    assert plain(evaluate(Let(X, ONE, Tuple([negative(X), inner, add(X, ONE)])))) == (-1, 2, 2)


def test_functions_may_share_parameter_variable() -> None:
    functions = [Function([X], Call(Function([X], add(X, X)), [add(X, ONE)])), Function([X], X)]
    assert plain(evaluate(Tuple([Call(func, [const(3)]) for func in functions]))) == (8, 3)


def test_match_evaluates_first_matching_clause() -> None:
    pair = PatternConstructor(CONS, [PatternVar(X), PatternTuple([PatternWildcard(), PatternVar(Y)])])
    clauses = [
        Clause(PatternConstructor(NIL), Tuple([])),
        Clause(PatternConstructor(CONS, [PatternWildcard(), PatternConstructor(NIL)]), ONE),
        Clause(pair, subtract(X, Y)),
    ]

    def cons(*fields: Expr) -> Expr:
        return Call(CONS, fields)

    data = [Call(NIL, []), cons(ONE, Call(NIL, [])), cons(const(7), Tuple([ONE, const(2)]))]
    assert plain(evaluate(Tuple([Match(value, clauses) for value in data]))) == ((), 1, 5)


def test_infinity_and_nan_are_values() -> None:
    x = var("x", shape=(2,))
    assert repr(evaluate(log(divide(x, const(0.0))), [1, 0])) == "array([inf, nan], dtype=float32)"


def test_adt_value_has_tag_of_constructor() -> None:
    prelude = Prelude()
    prelude.mod["main"] = Function([], Call(prelude.nil, []))
    value = evaluate(prelude.mod)
    assert isinstance(value, ADTValue)
    assert value.tag == prelude.nil.tag
