"""The parser reads all that the printer writes, and says where a text is wrong and what to do."""

import math
import typing
from pathlib import Path
from typing import TypeVar, cast

import pytest
from lark import Lark
from lark.common import ParserConf
from lark.parsers.lalr_analysis import LALR_Analyzer

import apass.relay
from apass.core.diagnostics import Span
from apass.relay.adt import Match, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.ir.attrs import Attrs, DictAttrs
from apass.relay.ir.post_order import post_order
from apass.relay.ref import RefCreate, RefRead, RefWrite
from apass.relay.text.literals import KEYWORDS
from apass.relay.text.parsing.builder import Builder
from apass.relay.text.parsing.reader import read_expr, read_module
from apass.relay.text.parsing.tables import STARTS, load_tables
from apass.relay.ty import (
    Any,
    FuncType,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
)

GRAMMAR = (Path(apass.relay.__file__).parent / "text" / "parsing" / "grammar.lark").read_text()


NodeT = TypeVar("NodeT")


def the(kind: type[NodeT], given: object) -> NodeT:
    """Return what is given, which must be of a kind."""
    assert isinstance(given, kind)
    return given


# The grammar and what is made of it.


def test_the_grammar_has_no_conflicts() -> None:
    lark = Lark(GRAMMAR, parser="lalr", lexer="basic", start=list(STARTS))
    analyzer = cast("typing.Any", LALR_Analyzer(ParserConf(lark.rules, {}, list(STARTS)), strict=True))
    analyzer.compute_lalr()
    assert analyzer.parse_table


def test_the_printer_knows_the_keywords() -> None:
    assert {word for word in load_tables(Builder).words if word.isidentifier()} == KEYWORDS


def test_every_named_rule_is_a_method_and_every_public_method_a_rule() -> None:
    lark = Lark(GRAMMAR, parser="lalr", lexer="basic", start=list(STARTS))
    named = {str(rule.alias) for rule in lark.rules if rule.alias}
    assert named == {name for name in dir(Builder) if not name.startswith("_")}


# Expressions.


def value(text: str) -> object:
    """Return the number that a text of a constant is."""
    expr = the(Constant, read_expr(text))
    return expr.data.item()


def dtype(text: str) -> str:
    """Return the element type of the constant that a text is."""
    expr = the(Constant, read_expr(text))
    return str(expr.data.dtype)


@pytest.mark.parametrize(
    ("text", "number", "kind"),
    [
        ("1", 1, "int32"),
        ("-05", -5, "int32"),
        ("--5", 5, "int32"),
        ("42i", 42, "int32"),
        ("9223372036854775807i64", 2**63 - 1, "int64"),
        ("3u8", 3, "uint8"),
        ("1.5f", 1.5, "float32"),
        ("1.5", 1.5, "float32"),
        ("1f", 1.0, "float32"),
        ("1e3", 1000.0, "float32"),
        ("-1.25e-1f64", -0.125, "float64"),
        ("2f16", 2.0, "float16"),
        ("True", True, "bool"),
        ("False", False, "bool"),
    ],
)
def test_numbers(text: str, number: object, kind: str) -> None:
    assert (value(text), dtype(text)) == (number, kind)


def test_a_negative_zero_keeps_its_sign() -> None:
    assert math.copysign(1, float(str(value("-0f")))) == -1


def shown(text: str) -> str:
    """Return an expression as the printer shows it, on one line."""
    return " ".join(str(read_expr(text)).split())


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1 + 2 * 3", "%0 = multiply(2, 3); add(1, %0)"),
        ("1 - 2 - 3", "%0 = subtract(1, 2); subtract(%0, 3)"),
        ("1-2", "subtract(1, 2)"),
        ("1 - -2", "subtract(1, -2)"),
        ("(1 + 2) / 3", "%0 = add(1, 2); divide(%0, 3)"),
        ("1 < 2 == 3 >= 4", "%0 = less(1, 2); %1 = greater_equal(3, 4); equal(%0, %1)"),
        ("1 + 2 > 3 != False", "%0 = add(1, 2); %1 = greater(%0, 3); not_equal(%1, False)"),
        ("1 <= 2", "less_equal(1, 2)"),
    ],
)
def test_operators_bind_as_in_tvm(text: str, tree: str) -> None:
    assert shown(text) == tree


def test_comments_are_skipped_and_nest() -> None:
    assert shown("// one\n1 /* + 2 /* + 3 */ + 4 **/ + /**/ 5 // + 6") == "add(1, 5)"


def test_each_kind_of_expression() -> None:
    assert isinstance(read_expr("nn.conv2d"), Op)
    assert isinstance(read_expr("@f.g"), GlobalVar)
    assert isinstance(read_expr("()"), Tuple)
    assert isinstance(read_expr("(1)"), Constant)
    assert isinstance(read_expr("(1,)"), Tuple)
    assert isinstance(read_expr("(1, 2,)"), Tuple)
    assert isinstance(read_expr("(1, 2).0"), TupleGetItem)
    assert isinstance(read_expr("@f(1)(2).1(3,)"), Call)
    assert isinstance(read_expr("ref(1)"), RefCreate)
    assert isinstance(read_expr("ref_read(@f)"), RefRead)
    assert isinstance(read_expr("ref_write(@f, 1)"), RefWrite)
    assert isinstance(read_expr("if (True) { 1 } else { 2 }"), If)
    assert isinstance(read_expr("let %x = 1; %x"), Let)
    assert isinstance(read_expr("{ fn (%x) { %x } }"), Function)
    assert isinstance(read_expr("match @f { _ => 1 }"), Match)


def test_a_value_that_is_not_used_is_bound_to_a_variable_without_a_name() -> None:
    expr = the(Let, read_expr("@f(); 1"))
    assert (expr.var.name_hint, type(expr.value), type(expr.body)) == ("_", Call, Constant)


def test_a_let_binds_its_variable_in_its_value_and_its_body_alone() -> None:
    expr = the(Let, read_expr("let %x = 1; @f(let %x = fn () { %x }; %x, %x)"))
    call = the(Call, expr.body)
    inner = the(Let, call.args[0])
    func = the(Function, inner.value)
    assert func.body is inner.var is inner.body
    assert call.args[1] is expr.var
    assert inner.var is not expr.var


def test_a_graph_variable_stands_for_one_node_and_is_seen_in_every_branch() -> None:
    expr = the(If, read_expr("%0 = @f(1); if (%0 == 1) { %1 = @g(%0); %1 } else { (%1, %0) }"))
    pair = the(Tuple, expr.false_branch)
    cond = the(Call, expr.cond)
    assert pair.fields == (expr.true_branch, cond.args[0])


def test_a_graph_variable_that_a_block_binds_anew_has_its_old_meaning_after_it() -> None:
    expr = the(Tuple, read_expr("%0 = 1; (%0, { %0 = 2; %0 }, %0)"))
    first, second, third = expr.fields
    assert first is third
    assert first is not second


def test_free_variables_are_declared() -> None:
    expr = the(Tuple, read_expr('free_var %x: int32; free_var %"a.b"; (%x, %"a.b")'))
    assert [(one.name_hint, one.type_annotation) for one in expr.fields if isinstance(one, Var)] == [
        ("x", TensorType((), "int32")),
        ("a.b", None),
    ]


# Attributes.


def attrs_of(text: str) -> Attrs:
    """Return the attributes of the call that a text is."""
    call = the(Call, read_expr(text))
    assert call.attrs is not None
    return call.attrs


def test_the_attributes_of_an_operator_have_its_defaults_where_they_are_not_given() -> None:
    assert attrs_of("nn.softmax(1)") == Op.get("nn.softmax").make_attrs(axis=-1)
    assert attrs_of("nn.conv2d(1, 2, padding=[1, 1, 1, 1], channels=None, kernel_size=(3, 3),)") == Op.get(
        "nn.conv2d"
    ).make_attrs(padding=(1, 1, 1, 1), kernel_size=(3, 3))
    assert attrs_of("clip(1, a_min=-inff, a_max=1e-05f)") == Op.get("clip").make_attrs(a_min=-math.inf, a_max=1e-5)
    assert attrs_of('cast(1, dtype="int8")') == Op.get("cast").make_attrs(dtype="int8")


def test_the_attributes_of_a_function_may_be_anything() -> None:
    func = the(
        Function,
        read_expr(
            'fn (%x, "type"=0, r.e=3, a=1, b=[], c=[[1i64], ("s", True)], d=nullptr, e=(2), f=-1.5f, g=False) { %x }'
        ),
    )
    expected = {
        "type": 0,
        "r.e": 3,
        "a": 1,
        "b": (),
        "c": ((1,), ("s", True)),
        "d": None,
        "e": 2,
        "f": -1.5,
        "g": False,
    }
    assert func.attrs == DictAttrs(expected)


def test_the_attributes_of_other_calls_are_of_the_class_that_is_named() -> None:
    assert attrs_of('@f(1, a=1, attrs_type_key="DictAttrs")') == DictAttrs({"a": 1})
    assert attrs_of('@f(axis=2, attrs_type_key="relay.attrs.SoftmaxAttrs")') == Op.get("nn.softmax").make_attrs(axis=2)


# Types.


def type_of(text: str) -> Type | None:
    """Return the type that a parameter is given."""
    func = read_module(f"type List[A] {{ Nil }} def @main[A](%x: {text}) {{ %x }}")["main"]
    return func.params[0].type_annotation


def test_types() -> None:
    scalar = TensorType((), "float32")
    assert type_of("float32") == scalar
    assert type_of("Tensor[(), float32]") == scalar
    assert type_of("Tensor[(1, ?, 3,), int8]") == TensorType((1, Any(), 3), "int8")
    assert type_of("()") == TupleType([])
    assert type_of("(float32)") == scalar
    assert type_of("(float32,)") == TupleType([scalar])
    assert type_of("(float32, (), )") == TupleType([scalar, TupleType([])])
    assert type_of("ref(float32)") == RefType(scalar)
    assert type_of("fn () -> float32") == FuncType([], scalar)
    assert type_of("fn(float32,) -> fn (float32, float32) -> ()") == FuncType(
        [scalar], FuncType([scalar, scalar], TupleType([]))
    )
    assert isinstance(type_of("_"), IncompleteType)
    made = type_of("fn [B,](List[B], A) -> List[]")
    assert isinstance(made, FuncType)
    assert str(made) == "fn [B](List[B], A) -> List"
    assert isinstance(type_of("List[A]"), TypeCall)
    assert isinstance(type_of("fn [B]() -> B"), FuncType)


def test_data_types_and_matches() -> None:
    mod = read_module("""
        type List[A] { Cons(A, List[A]), Nil() }
        type Empty {}
        type Opaque
        extern type Handle[A]
        def @main(%x: List[Handle[int32]]) {
            match? (%x) {
                Cons(%head, (_, %t: int32, ())) => %head; 1,
                Nil => { Nil },
                Nil() => Nil(),
                %all => Cons(%all, Nil),
            }
        }
    """)
    assert [header.name_hint for header in mod.get_global_type_vars()] == ["List", "Empty", "Opaque", "Handle"]
    cons, nil = mod.get_type_data("List").constructors
    match = mod["main"].body
    assert isinstance(match, Match)
    assert not match.complete
    first, second, third, last = (clause.lhs for clause in match.clauses)
    assert isinstance(first, PatternConstructor)
    assert first.constructor is cons
    assert [type(one) for one in first.patterns] == [PatternVar, PatternTuple]
    inner = the(PatternTuple, first.patterns[1])
    assert [type(one) for one in inner.patterns] == [PatternWildcard, PatternVar, PatternTuple]
    assert isinstance(second, PatternConstructor)
    assert isinstance(third, PatternConstructor)
    assert second.constructor is third.constructor is nil
    assert isinstance(last, PatternVar)
    for clause in match.clauses[1:3]:
        call = the(Call, clause.rhs)
        assert (call.op, call.args) == (nil, ())


# Modules.


def test_functions_may_call_each_other_in_any_order() -> None:
    mod = read_module("def @f() { @g() } def @g() { @f() }")
    call = the(Call, mod["f"].body)
    assert call.op is mod.get_global_var("g")


def test_a_module_goes_on_from_another() -> None:
    first = read_module("type T { C } def @f() { C }")
    second = read_module("def @g() { (@f, C) }", init_module=first)
    assert [gvar.name_hint for gvar in second.get_global_vars()] == ["f", "g"]
    pair = the(Tuple, second["g"].body)
    assert pair.fields[0] is first.get_global_var("f")
    call = the(Call, pair.fields[1])
    assert call.op is first.get_constructor("T", "C")
    assert "g" not in first


def test_every_node_has_the_span_of_its_text() -> None:
    text = "def @main(%x: int32) {\n  %0 = add(%x, 1);\n  let %y =\n    (%0, %x).0;\n  if (True) { %y } else { Nil } }"
    mod = read_module("type T { Nil } " + text, "main.relay")
    func = mod["main"]
    spans = [node.span for node in post_order(func) if not isinstance(node, Op)]
    assert None not in spans

    def spelt(span: Span | None) -> str:
        assert span is not None
        assert span.source_name == "main.relay"
        lines = mod.source_map["main.relay"].split("\n")[span.line - 1 : span.end_line]
        lines[-1] = lines[-1][: span.end_column - 1]
        lines[0] = lines[0][span.column - 1 :]
        return "\n".join(lines)

    let = the(Let, func.body)
    field = the(TupleGetItem, let.value)
    pair = the(Tuple, field.tuple_value)
    choice = the(If, let.body)
    nodes: list[Expr] = [func.params[0], *pair.fields[:1], pair, field, let.var, let, choice.cond, choice.false_branch]
    assert [spelt(node.span) for node in nodes] == [
        "%x",
        "add(%x, 1)",
        "(%0, %x)",
        "(%0, %x).0",
        "%y",
        "let %y =\n    (%0, %x).0;\n  if (True) { %y } else { Nil }",
        "True",
        "Nil",
    ]
    assert spelt(func.span) == text.removeprefix("def @main")


def test_a_long_program_is_no_deeper_than_a_short_one() -> None:
    lines = "".join(f"  %{number} = @f(%{number - 1});\n" for number in range(1, 20_000))
    lets = "".join(f"  let %x{number} = %19999;\n" for number in range(5_000))
    sums = " + 1" * 5_000
    func = read_module(f"def @f() {{\n  %0 = 1;\n{lines}{lets}  %x0{sums}\n}}")["f"]
    assert sum(isinstance(node, Call) for node in post_order(func)) == 19_999 + 5_000


def test_parentheses_may_be_nested_deeply() -> None:
    assert isinstance(read_expr("(" * 20_000 + "1" + ")" * 20_000), Constant)
