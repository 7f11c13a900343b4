"""Type inference: the types of programs, with annotations and polymorphism."""

from apass.relay.expr import Call, Expr, If, Let, Op, Tuple, Var
from apass.relay.function import Function
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.op.nn.conv.conv import conv2d
from apass.relay.parser import parse_expr
from apass.relay.text.parsing.reader import read_module
from apass.relay.ty import (
    Any,
    FuncType,
    IncompleteType,
    ShapeVar,
    TensorType,
    TupleType,
    TypeVar,
    scalar_type,
)
from apass.relay.type_inference.infer import infer_expr, infer_module

X = var("x", shape=(2, 3))
COND = var("c", "bool")
LIST = "type List[A] { Cons(A, List[A]), Nil, }\n"


def typed_text(source: str) -> str:
    """Return the text of a typed module with single spaces."""
    return " ".join(str(infer_module(read_module(source))).split())


def type_of(expr: Expr, mod: IRModule | None = None) -> str:
    return str(infer_expr(expr, mod).checked_type)


def type_of_main(source: str) -> str:
    return str(infer_module(read_module(source))["main"].checked_type)


def test_every_node_is_typed() -> None:
    assert typed_text(
        """
        def @main(%x: Tensor[(2, 3), float32], %c: bool) {
          let %y = add(%x, %x);
          let %t = (%y, %c);
          if (%t.1) { %t.0 } else { nn.relu(%x) }
        }
        """
    ) == (
        "def @main(%x: Tensor[(2, 3), float32], %c: bool) -> Tensor[(2, 3), float32] { "
        "let %y: Tensor[(2, 3), float32] = add(%x, %x) /* ty=Tensor[(2, 3), float32] */; "
        "let %t: (Tensor[(2, 3), float32], bool) = (%y, %c); "
        "%0 = %t.1; "
        "if (%0) { %t.0 } else { nn.relu(%x) /* ty=Tensor[(2, 3), float32] */ } }"
    )


def test_inference_keeps_span() -> None:
    mod = infer_module(read_module("def @main(%x: int32) {\n  add(%x, %x)\n}", "here"))
    body = mod["main"].body
    assert body.span is not None
    assert (body.span.source_name, body.span.line, body.span.column) == ("here", 2, 3)


def test_empty_tuple_has_unit_type() -> None:
    assert infer_expr(Tuple([])).checked_type == TupleType()


def test_operator_type_arguments_are_argument_types() -> None:
    call = infer_expr(add(X, const(1.0)))
    assert isinstance(call, Call)
    assert call.type_args == (X.checked_type, scalar_type("float32"))


def test_polymorphic_function_is_instantiated_for_each_call() -> None:
    a = TypeVar("a")
    y, f = var("y", a), var("f")
    identity = Function([y], y, None, [a])
    program = infer_expr(Let(f, identity, Tuple([Call(f, [X]), Call(f, [COND])])))
    assert isinstance(program, Let)
    assert isinstance(program.body, Tuple)
    calls = [field for field in program.body.fields if isinstance(field, Call)]
    assert [str(call.type_args[0]) for call in calls] == ["Tensor[(2, 3), float32]", "bool"]
    assert (program.var.checked_type, str(program.checked_type)) == (
        FuncType([a], a, [a]),
        "(Tensor[(2, 3), float32], bool)",
    )


def test_explicit_type_arguments_are_kept() -> None:
    a, b = TypeVar("a"), TypeVar("b")
    first, second = var("first", a), var("second", b)
    func = Function([first, second], second, None, [a, b])
    call = infer_expr(Call(func, [X, COND], None, [TensorType((Any(), 3))]))
    assert isinstance(call, Call)
    assert list(map(str, call.type_args)) == ["Tensor[(?, 3), float32]", "bool"]


def test_function_without_type_parameters_is_monomorphic() -> None:
    f, y = var("f"), var("y")
    program = infer_expr(Let(f, Function([y], y), Call(f, [X])))
    assert isinstance(program, Let)
    assert program.var.checked_type == FuncType([X.checked_type], X.checked_type)


def test_returned_function_is_monomorphic() -> None:
    a = TypeVar("a")
    y = var("y", a)
    outer = Function([], Function([y], y, None, [a]))
    assert type_of(Call(Call(outer, []), [X])) == "Tensor[(2, 3), float32]"


def test_recursive_let_is_typed() -> None:
    assert (
        type_of_main(
            """
            def @main(%n: int32) {
              let %f = fn (%i) { if (equal(%i, 0)) { 1f } else { multiply(%f(subtract(%i, 1)), 2f) } };
              %f(%n)
            }
            """
        )
        == "fn (int32) -> float32"
    )


def test_recursive_global_function_is_typed() -> None:
    source = "def @main(%n: int32) { if (equal(%n, 0)) { 1f } else { @main(subtract(%n, 1)) } }"
    assert type_of_main(source) == "fn (int32) -> float32"


MUTUAL = """
def @even(%n: int32) { if (equal(%n, 0)) { True } else { @odd(subtract(%n, 1)) } }
def @odd(%n) { if (equal(%n, 0)) { False } else { @even(subtract(%n, 1)) } }
def @main() { (@even(3), @odd(3)) }
"""


def test_mutually_recursive_functions_are_typed() -> None:
    typed = infer_module(read_module(MUTUAL))
    assert {gvar.name_hint: str(typed[gvar].checked_type) for gvar in typed.get_global_vars()} == {
        "even": "fn (int32) -> bool",
        "odd": "fn (int32) -> bool",
        "main": "fn () -> (bool, bool)",
    }


def test_polymorphic_global_function_accepts_two_types() -> None:
    source = "def @id[A](%x: A) { %x }\ndef @main() { (@id(1), @id(True)) }"
    assert type_of_main(source) == "fn () -> (int32, bool)"


def test_global_function_can_be_value() -> None:
    source = """
    def @twice(%f: fn (int32) -> int32, %x: int32) -> int32 { %f(%f(%x)) }
    def @next(%x: int32) -> int32 { add(%x, 1) }
    def @main() { @twice(@next, 1) }
    """
    assert type_of_main(source) == "fn () -> int32"


def test_operator_can_be_value() -> None:
    f = var("f")
    assert type_of(Let(f, Op.get("add"), Call(f, [X, const(1.0)]))) == "Tensor[(2, 3), float32]"


def test_parameter_type_is_inferred_from_use() -> None:
    data, weight = var("data", shape=(1, 8, 6, 6)), var("weight")
    func = infer_expr(Function([data, weight], conv2d(data, weight, kernel_size=(3, 3), channels=4)))
    assert str(func.checked_type) == (
        "fn (Tensor[(1, 8, 6, 6), float32], Tensor[(4, 8, 3, 3), float32]) -> Tensor[(1, 4, 4, 4), float32]"
    )


def test_call_is_typed_after_its_arguments() -> None:
    source = """
    def @main(%x: Tensor[(2), float32]) {
      let %f = fn (%y) { (add(%y, %x), (%y, %y).0) };
      %f(%x).0
    }
    """
    assert type_of_main(source) == "fn (Tensor[(2), float32]) -> Tensor[(2), float32]"


def test_constructors_and_patterns_share_type_arguments() -> None:
    source = LIST + (
        "def @main(%x: float32) { match (Cons(%x, Nil())) { Cons(%h, Cons(%g, _)) => add(%h, %g), _ => %x, } }"
    )
    typed = infer_module(read_module(source))
    names = {node.name_hint: str(node.checked_type) for node in post_order(typed["main"]) if isinstance(node, Var)}
    nils = [node for node in post_order(typed["main"]) if isinstance(node, Call) and "Nil" in repr(node)]
    assert names == {"x": "float32", "h": "float32", "g": "float32"}
    assert [(str(nil.checked_type), nil.type_args) for nil in nils] == [("List[float32]", (scalar_type("float32"),))]


def test_recursion_over_polymorphic_data_type_is_typed() -> None:
    source = LIST + "def @length[A](%xs: List[A]) { match (%xs) { Cons(_, %t) => add(1, @length(%t)), Nil => 0, } }"
    assert str(infer_module(read_module(source))["length"].checked_type) == "fn [A](List[A]) -> int32"


def test_tuple_pattern_types_its_variables() -> None:
    source = "def @main(%p: (int32, (bool, float32))) { match (%p) { (_, (%b, %f)) => (%f, %b), } }"
    assert type_of_main(source) == "fn ((int32, (bool, float32))) -> (float32, bool)"


def test_type_argument_may_stay_unknown() -> None:
    mod = read_module(LIST)
    nil = mod.get_constructor("List", "Nil")
    assert type_of(Call(nil, []), mod) == "List[?]"


def test_reference_has_one_type() -> None:
    source = "def @main(%x: int32) { let %r = ref(%x); let %u = ref_write(%r, 1); (%u, ref_read(%r)) }"
    assert type_of_main(source) == "fn (int32) -> ((), int32)"


def test_reference_type_is_inferred_from_write() -> None:
    r = "fn (%r, %x: int32) { let %u = ref_write(%r, %x); ref_read(%r) }"
    assert type_of(parse_expr(r)) == "fn (ref(int32), int32) -> int32"


DYNAMIC, STATIC = var("d", shape=(Any(), 3)), var("s", shape=(2, 3))


def test_dimension_unknown_in_one_branch_is_unknown() -> None:
    assert type_of(If(COND, DYNAMIC, STATIC)) == type_of(If(COND, STATIC, DYNAMIC)) == "Tensor[(?, 3), float32]"


def test_argument_may_be_more_specific_than_parameter() -> None:
    call = infer_expr(Call(Function([DYNAMIC], DYNAMIC), [add(STATIC, STATIC)]))
    assert isinstance(call, Call)
    assert [str(expr.checked_type) for expr in (call, call.args[0])] == [
        "Tensor[(?, 3), float32]",
        "Tensor[(2, 3), float32]",
    ]


def test_generalized_result_generalizes_dependent_types() -> None:
    source = """
    def @main(%c: bool, %s: Tensor[(2), float32], %d: Tensor[(?), float32]) {
      let %f = fn (%i: bool) {
        if (%i) {
          if (%c) { %s } else { let %y = (%f(%c), %f(%c)); let %z = add(%y.0, %f(%c)); %z }
        } else {
          %d
        }
      };
      %f(%c)
    }
    """
    typed = infer_module(read_module(source))
    names = {node.name_hint: str(node.checked_type) for node in post_order(typed["main"]) if isinstance(node, Var)}
    dynamic = "Tensor[(?), float32]"
    assert (names["f"], names["y"], names["z"]) == (f"fn (bool) -> {dynamic}", f"({dynamic}, {dynamic})", dynamic)


def test_annotation_overrides_inferred_type() -> None:
    source = "def @main(%d: Tensor[(2), float32]) -> Tensor[(?), float32] { let %x: Tensor[(?), float32] = %d; %x }"
    assert typed_text(source) == (
        "def @main(%d: Tensor[(2), float32]) -> Tensor[(?), float32] { let %x: Tensor[(?), float32] = %d; %x }"
    )


def test_named_dimension_matches_itself_and_number() -> None:
    n = ShapeVar("n")
    x = var("x", TensorType((n, 3)))
    assert type_of(add(x, x)) == "Tensor[(n, 3), float32]"
    assert type_of(Call(Function([x], add(x, x)), [STATIC])) == "Tensor[(n, 3), float32]"


def test_incomplete_annotation_is_completed() -> None:
    y = var("y", TupleType([IncompleteType(), scalar_type("bool")]))
    func = infer_expr(Function([y], Call(Function([X], X), [y[0]])))
    assert isinstance(func, Function)
    assert str(func.params[0].type_annotation) == "(Tensor[(2, 3), float32], bool)"
