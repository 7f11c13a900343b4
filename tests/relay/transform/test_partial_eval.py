"""PartialEvaluate: residual programs, cells, recursion, limits, meaning, depth."""

from collections.abc import Callable, Sequence

import anyio
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import apass
from apass.relay.analysis.well_formed import what_is_ill_formed
from apass.relay.errors import EvaluationError
from apass.relay.expr import Call, Expr, If, Let, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.interpreter.compare_outputs import difference
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.parser import parse
from apass.relay.prelude import Prelude
from apass.relay.structural.equality import assert_structural_equal
from apass.relay.testing.programs import Program, programs
from apass.relay.transform import DeadCodeElimination, PartialEvaluate
from apass.relay.transform.partial_eval.partial_eval import partial_evaluate
from apass.relay.transform.partial_eval.values import Cell, Partial, Scope, Store, burned, fuel_of
from apass.relay.transform.to_cps import to_cps, un_cps
from apass.relay.type_inference.infer import infer_function, infer_module
from tests.helpers.amounts import amount, levels
from tests.helpers.counting import calls_of
from tests.relay.hard_programs import HARD_PROGRAMS

VERSION = '#[version = "0.0.5"]\n'
LIST = """
type List[A] { Nil, Cons(A, List[A]), }
def @map[A, B](%f: fn(A) -> B, %l: List[A]) -> List[B] {
  match (%l) { Nil => Nil, Cons(%h, %t) => Cons(%f(%h), @map(%f, %t)) }
}
def @sum(%l: List[int32]) -> int32 { match (%l) { Nil => 0, Cons(%h, %t) => add(%h, @sum(%t)) } }
"""
LOOPS = """
def @down(%n: int32, %x: float32) -> float32 {
  if (greater(%n, 0)) { @down(subtract(%n, 1), exp(%x)) } else { %x }
}
def @up(%i: int32, %n: int32) -> int32 { if (less(%i, %n)) { @up(add(%i, 1), %n) } else { %i } }
def @fib(%n: int32) -> int32 { if (less(%n, 2)) { %n } else { add(@fib(subtract(%n, 1)), @fib(subtract(%n, 2))) } }
"""


def evaluated(text: str) -> Function:
    """Return `main` after the pass, typed."""
    return infer_module(apass.run(PartialEvaluate(), parse(VERSION + text)))["main"]


def cleaned(text: str) -> Function:
    """Return `main` after the pass and DeadCodeElimination, typed."""
    passes: list[apass.Pass[IRModule]] = [PartialEvaluate(), DeadCodeElimination(inline_once=True)]
    return infer_module(apass.run(apass.Sequential(passes), parse(VERSION + text)))["main"]


def expected(text: str) -> Function:
    return infer_module(parse(VERSION + text))["main"]


def assert_same_meaning(mod: IRModule, arguments: Sequence[object]) -> None:
    after = partial_evaluate(mod)
    assert what_is_ill_formed(after) == []
    with np.errstate(all="ignore"):
        assert difference(evaluate(mod, *arguments), evaluate(after, *arguments)) == ""
    assert infer_module(after)["main"].checked_type == infer_module(mod)["main"].checked_type


@pytest.mark.parametrize(
    "body",
    [
        'let %z = add(%x, 1); fn (%y: int32, Composite="c") -> int32 { add(%z, %y) }(%x)',
        "let %f = fn (%y: int32, Primitive=1) -> int32 { add(%x, %y) }; %f(%x)",
        "let %f = fn (%y: int32, Primitive=1) -> int32 { if (less(%y, 1)) { %x } else { %f(negative(%y)) } }; %f(%x)",
        "let %g = fn (%a: int32) { fn (%y: int32, Primitive=1) { add(%a, %y) }(%a) }; add(%g(%x), %g(4))",
        'let %g = fn [A](%a: A) { fn (%b: A, Composite="c") { (%a, %b) }(%a) }; (%g(%x), %g(2f))',
    ],
)
def test_opaque_function_captures_variables(body: str) -> None:
    assert_same_meaning(parse(VERSION + "def @main(%x: int32) { " + body + " }"), (3,))


def test_known_operands_are_computed() -> None:
    result = evaluated("def @main(%x: int32) { add(%x, add(1, 2)) }")
    text = """
    def @main(%x: int32) { let %a = 1; let %b = 2; let %c = 3; let %d = add(%x, %c); %d }
    """
    assert_structural_equal(result, expected(text))


def test_known_branch_is_chosen() -> None:
    result = cleaned("def @main(%x: int32) { if (less(1, 2)) { %x } else { negative(%x) } }")
    assert_structural_equal(result, expected("def @main(%x: int32) { %x }"))


def test_branches_of_unknown_condition_are_evaluated() -> None:
    result = cleaned("def @main(%c: bool, %x: int32) { if (%c) { add(%x, add(1, 1)) } else { (%x, %x).0 } }")
    assert_structural_equal(result, expected("def @main(%c: bool, %x: int32) { if (%c) { add(%x, 2) } else { %x } }"))


def test_called_function_is_unfolded_and_stays() -> None:
    result = evaluated("def @main(%x: int32) { let %f = fn (%y: int32) { negative(%y) }; %f(%x) }")
    text = """
    def @main(%x: int32) {
      let %f = fn (%y: int32) { let %a = negative(%y); %a };
      let %b = negative(%x);
      %b
    }
    """
    assert_structural_equal(result, expected(text))


def test_function_as_argument_is_unfolded() -> None:
    result = cleaned(
        """
        def @apply[A, B](%f: fn (A) -> B, %x: A) -> B { %f(%x) }
        def @main(%x: int32) { @apply(fn (%y: int32) { multiply(%y, %x) }, 3) }
        """
    )
    assert_structural_equal(result, expected("def @main(%x: int32) { multiply(3, %x) }"))


def test_unknown_function_is_called() -> None:
    result = evaluated("def @main(%f: fn (int32) -> int32) { %f(1) }")
    assert_structural_equal(result, expected("def @main(%f: fn (int32) -> int32) { let %a = 1; let %b = %f(%a); %b }"))


def test_known_cell_is_not_read() -> None:
    result = evaluated("def @main(%x: int32) { let %r = ref(%x); let %u = ref_write(%r, 2); ref_read(%r) }")
    text = """
    def @main(%x: int32) { let %r = ref(%x); let %a = 2; let %u = ref_write(%r, %a); %a }
    """
    assert_structural_equal(result, expected(text))


def reads(func: Function) -> int:
    return sum(isinstance(node, RefRead) for node in post_order(func))


def test_cell_is_read_after_unknown_call() -> None:
    text = "def @main(%f: fn (ref(int32)) -> ()) { let %r = ref(1); let %u = %f(%r); ref_read(%r) }"
    assert reads(evaluated(text)) == 1


def test_cell_is_read_after_unknown_write() -> None:
    text = "def @main(%s: ref(int32)) { let %r = ref(1); let %u = ref_write(%s, 2); ref_read(%r) }"
    assert reads(evaluated(text)) == 1


def test_cell_is_read_after_unknown_branch() -> None:
    text = """
    def @main(%c: bool) {
      let %r = ref(1);
      let %u = if (%c) { ref_write(%r, 2) } else { ref_write(%r, add(ref_read(%r), 4)) };
      ref_read(%r)
    }
    """
    result = evaluated(text)
    assert reads(result) == 1
    assert [evaluate(result, flag) for flag in (True, False)] == [2, 5]


def test_cell_is_read_after_residual_recursive_call() -> None:
    text = """
    def @count(%r: ref(int32), %n: int32) -> () {
      if (equal(%n, 0)) { () } else { let %u = ref_write(%r, add(ref_read(%r), 1)); @count(%r, subtract(%n, 1)) }
    }
    def @main(%n: int32) { let %r = ref(0); let %u = @count(%r, %n); ref_read(%r) }
    """
    assert_same_meaning(parse(VERSION + text), [5])


def test_known_clause_is_chosen() -> None:
    result = cleaned(LIST + "def @main(%x: int32) { match (Cons(%x, Nil)) { Cons(%a, Cons(_, _)) => 0, _ => %x } }")
    assert_structural_equal(result, expected(LIST + "def @main(%x: int32) { %x }"))


def test_match_without_fitting_clause_fails_when_run() -> None:
    text = LIST + "def @main(%x: int32) { match? (Cons(%x, Nil)) { Nil => 0 } }"
    after = partial_evaluate(parse(VERSION + text))
    with pytest.raises(EvaluationError):
        evaluate(after, 1)


def test_functions_on_lists_are_unfolded() -> None:
    text = "def @main(%x: int32) { @sum(@map(fn (%y: int32) { multiply(%y, %x) }, Cons(2, Cons(%x, Nil)))) }"
    result = cleaned(LIST + text)
    calls = [
        node.op.name for node in post_order(result) if isinstance(node, Call) and isinstance(node.op, apass.relay.Op)
    ]
    assert sorted(calls) == ["add", "add", "multiply", "multiply"]
    assert evaluate(result, 5) == 35


def test_prelude_functions_are_unfolded() -> None:
    mod = IRModule()
    prelude = Prelude(mod)
    nil, cons = mod.get_constructor("List", "Nil"), mod.get_constructor("List", "Cons")
    x = var("x", "int32")
    numbers = Call(cons, [x, Call(cons, [const(2), Call(nil, [])])])
    mod["main"] = Function([x], Call(prelude.sum, [numbers]))
    result = apass.run(DeadCodeElimination(inline_once=True), partial_evaluate(mod))["main"]
    assert not any(isinstance(node, apass.relay.GlobalVar) for node in post_order(result))
    assert evaluate(result, 5) == 7


def test_recursion_over_known_number_is_unrolled() -> None:
    result = cleaned(LOOPS + "def @main(%x: float32) { @down(3, %x) }")
    assert_structural_equal(result, expected(LOOPS + "def @main(%x: float32) { exp(exp(exp(%x))) }"))


def test_recursion_over_unknown_number_stays() -> None:
    text = LOOPS + "def @main(%n: int32, %x: float32) { @down(%n, %x) }"
    result = cleaned(text)
    assert_structural_equal(
        result,
        expected(
            LOOPS
            + """
            def @main(%n: int32, %x: float32) {
              if (greater(%n, 0)) { @down(subtract(%n, 1), exp(%x)) } else { %x }
            }
            """
        ),
    )


def test_recursion_over_growing_number_stays() -> None:
    assert_structural_equal(cleaned(LOOPS + "def @main() { @up(0, 9) }"), expected(LOOPS + "def @main() { @up(1, 9) }"))


def test_infinite_recursion_is_not_unfolded_endlessly() -> None:
    text = "def @loop(%n: int32) -> int32 { @loop(%n) } def @main() { @loop(3) }"
    result = evaluated(text)
    assert any(isinstance(node, apass.relay.GlobalVar) for node in post_order(result))


def test_recursion_through_cell_ends() -> None:
    text, arguments = HARD_PROGRAMS["a recursion goes through a cell"]
    assert_same_meaning(parse(text), arguments)


def test_function_created_in_its_own_call_keeps_body() -> None:
    text = """
    def @h(%n: int32) -> int32 {
      let %g = fn (%y: int32) -> int32 { if (greater(%n, 0)) { add(%y, @h(subtract(%n, 1))) } else { %y } };
      %g(1)
    }
    def @main(%x: int32) { (@h(2), @h(%x)) }
    """
    assert_same_meaning(parse(VERSION + text), [3])


def test_fuel_is_smaller_for_older_or_smaller_arguments() -> None:
    old, new = Partial(const(1), const(5).data), Partial(const(1), const(3).data)
    assert fuel_of([old])[1] == 5
    assert burned(fuel_of([old]), fuel_of([new])) == ((old.created, 3), True)
    assert burned(fuel_of([new]), fuel_of([old])) == ((old.created, 3), True)
    assert burned((1, 3), fuel_of([old])) == ((1, 3), False)
    assert fuel_of([Partial(const(-1), const(-1).data)])[1] == 0
    assert fuel_of([Partial(const(2.0), const(2.0).data)])[1] == 0


def test_store_that_extends_another_does_not_change_it() -> None:
    cell = Cell()
    outer = Store()
    outer.write(cell, Partial(const(1)))
    inner = Store(Store(outer))
    assert inner.read(cell) is outer.read(cell)
    inner.write(cell, Partial(const(2)))
    assert inner.read(cell) is not outer.read(cell)
    assert Store().read(cell) is None


class CountedCell(Cell):
    """A cell that counts how often a store searches for it."""

    searches = 0

    def __hash__(self) -> int:
        CountedCell.searches += 1
        return super().__hash__()


def test_nested_stores_are_read_in_linear_time() -> None:
    cell = CountedCell()
    store = Store()
    store.write(cell, Partial(const(1)))
    for _ in range(100):
        store = Store(store)
        store.write(Cell(), Partial(const(2)))
    CountedCell.searches = 0
    for _ in range(100):
        assert store.read(cell) is not None
    assert CountedCell.searches < 400


def test_scope_finds_variables_of_enclosing_scopes() -> None:
    x, y = Var("x"), Var("y")
    outer = Scope()
    outer.values[x] = Partial(const(1))
    assert Scope(Scope(outer)).find(x) is outer.values[x]
    assert outer.find(y).dynamic is y


def unfolded_at(limit: int) -> int:
    """Return the number of calls of `exp` that remain with a limit."""

    async def main() -> IRModule:
        async with apass.PassContext(config={"relay.PartialEvaluate.max_unfolded": limit}):
            return await PartialEvaluate()(parse(VERSION + LOOPS + "def @main(%x: float32) { @down(100, %x) }"))

    after = anyio.run(main)
    assert (
        difference(
            evaluate(after, -1.0), evaluate(parse(VERSION + LOOPS + "def @main(%x: float32) { @down(100, %x) }"), -1.0)
        )
        == ""
    )
    return sum(isinstance(node, Call) and node.op is apass.relay.op.get("exp") for node in post_order(after["main"]))


def test_limit_bounds_unfolded_code() -> None:
    assert unfolded_at(0) == 0
    assert 0 < unfolded_at(200) < 100
    assert unfolded_at(50_000) == 100


def test_exponential_recursion_ends() -> None:
    mod = parse(VERSION + LOOPS + "def @main() { @fib(25) }")
    after = partial_evaluate(mod)
    assert sum(1 for _ in post_order(after["main"])) < 100_000
    assert evaluate(partial_evaluate(parse(VERSION + LOOPS + "def @main() { @fib(10) }"))) == 55


def test_primitive_function_is_computed_or_kept() -> None:
    text = """
    def @main(%x: int32) {
      let %f = fn (%p: int32, Primitive=1) { negative(%p) };
      (fn (%p: int32, Primitive=1) { negative(%p) }(2), fn (%p: int32, Primitive=1) { negative(%p) }(%x), %f(%x))
    }
    """
    result = evaluated(text)
    direct = [node for node in post_order(result) if isinstance(node, Call) and isinstance(node.op, Function)]
    assert len(direct) == 1
    assert_same_meaning(parse(VERSION + text), [3])


@pytest.mark.parametrize("attribute", ['Compiler="other"', 'Composite="other.f"'])
def test_function_of_other_compiler_is_called(attribute: str) -> None:
    text = f"def @main(%x: int32) {{ fn (%p: int32, {attribute}) {{ negative(%p) }}(%x) }}"
    mod = parse(VERSION + text)
    after = partial_evaluate(mod)["main"]
    functions = [
        [node for node in post_order(func.body) if isinstance(node, Function)] for func in (mod["main"], after)
    ]
    assert len(functions[0]) == len(functions[1]) == 1
    assert_structural_equal(functions[0][0], functions[1][0])


def test_global_function_of_other_compiler_stays() -> None:
    mod = parse(VERSION + 'def @f(%x: int32, Compiler="other") { add(1, 2) } def @main() { @f(1) }')
    after = partial_evaluate(mod)
    assert after["f"] is mod["f"]
    assert any(isinstance(node, apass.relay.GlobalVar) for node in post_order(after["main"]))


def test_shared_expression_is_computed_once() -> None:
    x = var("x", "int32")
    shared = call_op("negative", x)
    after = partial_evaluate(IRModule.from_expr(Function([x], Tuple([shared, shared]))))["main"]
    assert sum(isinstance(node, Call) for node in post_order(after)) == 1


def test_type_parameters_are_replaced_in_unfolded_code() -> None:
    text = """
    def @twice[A](%f: fn (A) -> A) -> fn (A) -> A { fn (%x: A) -> A { %f(%f(%x)) } }
    def @main() { @twice(fn (%x: int32) { add(%x, 1) }) }
    """
    assert str(evaluated(text).checked_type) == "fn () -> fn (int32) -> int32"


def test_input_module_is_not_changed() -> None:
    mod = parse(VERSION + LOOPS + "def @main(%x: float32) { @down(3, %x) }")
    text = mod.astext()
    partial_evaluate(mod)
    assert mod.astext() == text


def test_code_after_branch_is_specialized_in_cps() -> None:
    mod = parse(VERSION + "def @main(%c: bool) { let %a = if (%c) { 1 } else { 2 }; multiply(%a, 10) }")
    mod["main"] = un_cps(to_cps(mod["main"], mod))
    passes: list[apass.Pass[IRModule]] = [PartialEvaluate(), DeadCodeElimination(inline_once=True)]
    result = infer_module(apass.run(apass.Sequential(passes), mod))["main"]
    assert_structural_equal(result, expected("def @main(%c: bool) { if (%c) { 10 } else { 20 } }"))


@pytest.mark.parametrize("name", HARD_PROGRAMS)
def test_meaning_of_hard_program_is_kept(name: str) -> None:
    text, arguments = HARD_PROGRAMS[name]
    assert_same_meaning(parse(text), arguments)


@settings(max_examples=amount(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(refs=True))
def test_meaning_of_random_program_is_kept(program: Program) -> None:
    assert_same_meaning(*program)


@settings(max_examples=amount(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(refs=True))
def test_meaning_is_kept_after_cps(program: Program) -> None:
    mod, arguments = program
    anf = apass.run(apass.relay.transform.ToANormalForm(), mod)
    anf["main"] = infer_function(un_cps(to_cps(anf["main"], anf)), anf)
    assert_same_meaning(anf, arguments)


def deep_operators(x: Expr, count: int) -> Expr:
    for _ in range(count):
        x = call_op("negative", x)
    return x


def deep_branches(x: Expr, count: int) -> Expr:
    cond, result = Var("cond"), x
    for _ in range(count):
        result = If(cond, result, x)
    return Let(cond, call_op("less", x, const(5.0)), result)


def deep_functions(x: Expr, count: int) -> Expr:
    result = x
    for _ in range(count):
        result = Call(Function([Var("y")], call_op("add", result, x)), [const(1.0)])
    return result


def deep_lets(x: Expr, count: int) -> Expr:
    result = x
    for _ in range(count):
        value = Var("value")
        result = Let(value, result, call_op("negative", value))
    return result


def deep_tuples(x: Expr, count: int) -> Expr:
    for _ in range(count):
        x = Tuple([x])
    for _ in range(count):
        x = TupleGetItem(x, 0)
    return x


def deep_writes(x: Expr, count: int) -> Expr:
    cell, result = Var("cell"), x
    for _ in range(count):
        result = If(call_op("less", x, const(5.0)), Let(Var("u"), RefWrite(cell, x), result), RefRead(cell))
    return Let(cell, RefCreate(x), result)


DEEP: list[Callable[[Expr, int], Expr]] = [
    deep_operators, deep_branches, deep_functions, deep_lets, deep_tuples, deep_writes,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("body", DEEP)
def test_deep_program_is_evaluated(body: Callable[[Expr, int], Expr]) -> None:
    x = var("x", "float32")
    mod = IRModule.from_expr(Function([x], body(x, levels(10_000))))
    after = partial_evaluate(mod)
    assert difference(evaluate(mod, 2.0), evaluate(after, 2.0)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("body", DEEP)
def test_work_is_linear_in_depth(body: Callable[[Expr, int], Expr]) -> None:
    x = var("x", "float32")
    small, large = (IRModule.from_expr(Function([x], body(x, count))) for count in (50, 200))
    assert calls_of(lambda: partial_evaluate(large, 0)) < 5 * calls_of(lambda: partial_evaluate(small, 0))
