"""The parser accepts every construct of the text format and sets spans."""

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
from apass.relay.ir.expr import RefCreate, RefRead, RefWrite
from apass.relay.ir.post_order import post_order
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
from tests.helpers.amounts import levels

GRAMMAR = (Path(apass.relay.__file__).parent / "text" / "parsing" / "grammar.lark").read_text()


NodeT = TypeVar("NodeT")


def checked(kind: type[NodeT], value: object) -> NodeT:
    """Return `value`, which must be an instance of `kind`."""
    assert isinstance(value, kind)
    return value


# The grammar.


def test_grammar_has_no_conflicts() -> None:
    lark = Lark(GRAMMAR, parser="lalr", lexer="basic", start=list(STARTS))
    analyzer = cast("typing.Any", LALR_Analyzer(ParserConf(lark.rules, {}, list(STARTS)), strict=True))
    analyzer.compute_lalr()
    assert analyzer.parse_table


def test_printer_keywords_are_those_of_grammar() -> None:
    assert {word for word in load_tables(Builder).words if word.isidentifier()} == KEYWORDS


def test_named_rules_are_public_builder_methods() -> None:
    lark = Lark(GRAMMAR, parser="lalr", lexer="basic", start=list(STARTS))
    named = {str(rule.alias) for rule in lark.rules if rule.alias}
    assert named == {name for name in dir(Builder) if not name.startswith("_")}


# Expressions.


def value(text: str) -> object:
    """Return the number of a constant."""
    expr = checked(Constant, read_expr(text))
    return expr.data.item()


def dtype(text: str) -> str:
    """Return the element type of a constant."""
    expr = checked(Constant, read_expr(text))
    return str(expr.data.dtype)


@pytest.mark.parametrize(
    ("text", "number", "kind"),
    [
        ("1", 1, "int32"),
        ("-05", -5, "int32"),
        ("--5", 5, "int32"),
        ("42i", 42, "int32"),
        ("9223372036854775807i64", 2**63 - 1, "int64"),
        ("5i64", 5, "int64"),
        ("2147483647", 2**31 - 1, "int32"),
        ("2147483648", 2**31, "int64"),
        ("4000000000", 4_000_000_000, "int64"),
        ("-2147483648", -(2**31), "int32"),
        ("-2147483649", -(2**31) - 1, "int64"),
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
def test_number_has_value_and_type(text: str, number: object, kind: str) -> None:
    assert (value(text), dtype(text)) == (number, kind)


def test_negative_zero_keeps_its_sign() -> None:
    assert math.copysign(1, float(str(value("-0f")))) == -1


def printed(text: str) -> str:
    """Return the printed text of a parsed expression on one line."""
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
def test_operator_precedence_is_that_of_tvm(text: str, tree: str) -> None:
    assert printed(text) == tree


def test_comments_are_skipped_and_nest() -> None:
    assert printed("// one\n1 /* + 2 /* + 3 */ + 4 **/ + /**/ 5 // + 6") == "add(1, 5)"


def test_every_kind_of_expression_is_parsed() -> None:
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


def test_unused_value_is_bound_to_underscore() -> None:
    expr = checked(Let, read_expr("@f(); 1"))
    assert (expr.var.name_hint, type(expr.value), type(expr.body)) == ("_", Call, Constant)


def test_let_scope_is_its_value_and_body() -> None:
    expr = checked(Let, read_expr("let %x = 1; @f(let %x = fn () { %x }; %x, %x)"))
    call = checked(Call, expr.body)
    inner = checked(Let, call.args[0])
    func = checked(Function, inner.value)
    assert func.body is inner.var is inner.body
    assert call.args[1] is expr.var
    assert inner.var is not expr.var


def test_graph_variable_is_visible_in_all_branches() -> None:
    expr = checked(If, read_expr("%0 = @f(1); if (%0 == 1) { %1 = @g(%0); %1 } else { (%1, %0) }"))
    pair = checked(Tuple, expr.false_branch)
    cond = checked(Call, expr.cond)
    assert pair.fields == (expr.true_branch, cond.args[0])


def test_rebound_graph_variable_is_restored_after_block() -> None:
    expr = checked(Tuple, read_expr("%0 = 1; (%0, { %0 = 2; %0 }, %0)"))
    first, second, third = expr.fields
    assert first is third
    assert first is not second


def test_free_variables_are_declared() -> None:
    expr = checked(Tuple, read_expr('free_var %x: int32; free_var %"a.b"; (%x, %"a.b")'))
    assert [(node.name_hint, node.type_annotation) for node in expr.fields if isinstance(node, Var)] == [
        ("x", TensorType((), "int32")),
        ("a.b", None),
    ]


# Attributes.


def attrs_of(text: str) -> Attrs:
    """Return the attributes of a parsed call."""
    call = checked(Call, read_expr(text))
    assert call.attrs is not None
    return call.attrs


def test_operator_attributes_have_defaults() -> None:
    assert attrs_of("nn.softmax(1)") == Op.get("nn.softmax").make_attrs(axis=-1)
    assert attrs_of("nn.conv2d(1, 2, padding=[1, 1, 1, 1], channels=None, kernel_size=(3, 3),)") == Op.get(
        "nn.conv2d"
    ).make_attrs(padding=(1, 1, 1, 1), kernel_size=(3, 3))
    assert attrs_of("clip(1, a_min=-inff, a_max=1e-05f)") == Op.get("clip").make_attrs(a_min=-math.inf, a_max=1e-5)
    assert attrs_of('cast(1, dtype="int8")') == Op.get("cast").make_attrs(dtype="int8")


def test_function_attributes_accept_all_values() -> None:
    func = checked(
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


def test_type_key_selects_attributes_class() -> None:
    assert attrs_of('@f(1, a=1, attrs_type_key="DictAttrs")') == DictAttrs({"a": 1})
    assert attrs_of('@f(axis=2, attrs_type_key="relay.attrs.SoftmaxAttrs")') == Op.get("nn.softmax").make_attrs(axis=2)


# Types.


def type_of(text: str) -> Type | None:
    """Return the parsed type of a parameter."""
    func = read_module(f"type List[A] {{ Nil }} def @main[A](%x: {text}) {{ %x }}")["main"]
    return func.params[0].type_annotation


@pytest.mark.parametrize(
    ("text", "dtype"), [("int", "int32"), ("uint", "uint32"), ("float", "float32"), ("uint1", "bool"), ("int8", "int8")]
)
def test_element_type_without_size_has_32_bits(text: str, dtype: str) -> None:
    assert type_of(text) == TensorType((), dtype)
    assert type_of(f"Tensor[(2), {text}]") == type_of(f"Tensor[(2,), {text}]") == TensorType((2,), dtype)
    assert str(type_of(f"Tensor[(2), {text}]")) == f"Tensor[(2), {dtype}]"


def test_underscore_is_no_annotation() -> None:
    let = checked(Let, read_expr("let %x : _ = 1; %x"))
    assert let.var.type_annotation is None
    assert type_of("_") is None
    func = read_module("def @main(%x: _) -> _ { match (%x) { %y: _ => { %y }, } }")["main"]
    assert (func.params[0].type_annotation, func.ret_type) == (None, None)
    pattern = checked(PatternVar, checked(Match, func.body).clauses[0].lhs)
    assert pattern.var.type_annotation is None
    assert checked(Var, read_expr("free_var %x: _; %x")).type_annotation is None


def test_types_are_parsed() -> None:
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
    assert isinstance(checked(TupleType, type_of("(_,)")).fields[0], IncompleteType)
    generic = type_of("fn [B,](List[B], A) -> List[]")
    assert isinstance(generic, FuncType)
    assert str(generic) == "fn [B](List[B], A) -> List"
    assert isinstance(type_of("List[A]"), TypeCall)
    assert isinstance(type_of("fn [B]() -> B"), FuncType)


def test_data_types_and_matches_are_parsed() -> None:
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
    assert [type(pattern) for pattern in first.patterns] == [PatternVar, PatternTuple]
    inner = checked(PatternTuple, first.patterns[1])
    assert [type(pattern) for pattern in inner.patterns] == [PatternWildcard, PatternVar, PatternTuple]
    assert isinstance(second, PatternConstructor)
    assert isinstance(third, PatternConstructor)
    assert second.constructor is third.constructor is nil
    assert isinstance(last, PatternVar)
    for clause in match.clauses[1:3]:
        call = checked(Call, clause.rhs)
        assert (call.op, call.args) == (nil, ())


# Modules.


def test_function_may_call_later_function() -> None:
    mod = read_module("def @f() { @g() } def @g() { @f() }")
    call = checked(Call, mod["f"].body)
    assert call.op is mod.get_global_var("g")


def test_parsed_module_extends_init_module() -> None:
    first = read_module("type T { C } def @f() { C }")
    second = read_module("def @g() { (@f, C) }", init_module=first)
    assert [gvar.name_hint for gvar in second.get_global_vars()] == ["f", "g"]
    pair = checked(Tuple, second["g"].body)
    assert pair.fields[0] is first.get_global_var("f")
    call = checked(Call, pair.fields[1])
    assert call.op is first.get_constructor("T", "C")
    assert "g" not in first


def test_every_node_has_span() -> None:
    text = "def @main(%x: int32) {\n  %0 = add(%x, 1);\n  let %y =\n    (%0, %x).0;\n  if (True) { %y } else { Nil } }"
    mod = read_module("type T { Nil } " + text, "main.relay")
    func = mod["main"]
    spans = [node.span for node in post_order(func) if not isinstance(node, Op)]
    assert None not in spans

    def source_text(span: Span | None) -> str:
        assert span is not None
        assert span.source_name == "main.relay"
        lines = mod.source_map["main.relay"].split("\n")[span.line - 1 : span.end_line]
        lines[-1] = lines[-1][: span.end_column - 1]
        lines[0] = lines[0][span.column - 1 :]
        return "\n".join(lines)

    let = checked(Let, func.body)
    field = checked(TupleGetItem, let.value)
    pair = checked(Tuple, field.tuple_value)
    choice = checked(If, let.body)
    nodes: list[Expr] = [func.params[0], *pair.fields[:1], pair, field, let.var, let, choice.cond, choice.false_branch]
    assert [source_text(node.span) for node in nodes] == [
        "%x",
        "add(%x, 1)",
        "(%0, %x)",
        "(%0, %x).0",
        "%y",
        "let %y =\n    (%0, %x).0;\n  if (True) { %y } else { Nil }",
        "True",
        "Nil",
    ]
    assert source_text(func.span) == text.removeprefix("def @main")


def test_parser_accepts_long_program() -> None:
    lines = "".join(f"  %{number} = @f(%{number - 1});\n" for number in range(1, 20_000))
    lets = "".join(f"  let %x{number} = %19999;\n" for number in range(levels(5_000)))
    sums = " + 1" * 5_000
    func = read_module(f"def @f() {{\n  %0 = 1;\n{lines}{lets}  %x0{sums}\n}}")["f"]
    assert sum(isinstance(node, Call) for node in post_order(func)) == 19_999 + 5_000


def test_parser_accepts_deep_parentheses() -> None:
    assert isinstance(read_expr("(" * 20_000 + "1" + ")" * 20_000), Constant)
