"""The printer: graph variables, names, attributes, scalars, types and metadata."""

import re
import typing
from base64 import b64encode

import numpy as np
import pytest

from apass.core.diagnostics import Span
from apass.relay.adt import Clause, Constructor, Match, PatternConstructor, PatternVar, PatternWildcard, TypeData
from apass.relay.base import SourceName
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.ir.attrs import DictAttrs
from apass.relay.ir.expr import RefCreate, RefRead, RefWrite, const, var
from apass.relay.ir.module import IRModule
from apass.relay.parser import parse_expr
from apass.relay.structural.equality import structural_equal
from apass.relay.text.metadata import MetadataError
from apass.relay.text.printing.printer import VERSION_LINE, astext, pretty_print
from apass.relay.ty import (
    Any,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    ShapeVar,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
)
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import levels

X = var("x", shape=(10,))
Y = var("y", shape=(10,))
F, G, H, K = (GlobalVar(name) for name in "fghk")


def body_of(expr: Expr) -> str:
    """Return the text of `expr` as the body of a function of X and Y."""
    lines = pretty_print(Function([X, Y], expr)).splitlines()
    assert lines[0] == "fn (%x: Tensor[(10), float32], %y: Tensor[(10), float32]) {"
    assert lines[-1] == "}"
    return "\n".join(line.removeprefix("  ") for line in lines[1:-1])


def test_text_starts_with_version() -> None:
    assert VERSION_LINE == '#[version = "0.0.5"]'
    assert astext(TensorType((1, 2))) == '#[version = "0.0.5"]\nTensor[(1, 2), float32]'


def test_str_is_text_without_version() -> None:
    func = Function([X], X)
    assert str(func) == "fn (%x: Tensor[(10), float32]) {\n  %x\n}"
    assert func.astext() == f"{VERSION_LINE}\n{func}"
    mod = IRModule.from_expr(func)
    assert str(mod) == "def @main(%x: Tensor[(10), float32]) {\n  %x\n}\n"
    assert mod.astext() == f"{VERSION_LINE}\n{mod}"


# Graph variables.


def test_operand_is_assigned_to_graph_variable() -> None:
    assert body_of((X + Y) * X) == "%0 = add(%x, %y);\nmultiply(%0, %x)"


def test_shared_expression_is_printed_once() -> None:
    both = X + Y
    assert body_of(both * both) == "%0 = add(%x, %y);\nmultiply(%0, %0)"


def test_shared_result_is_assigned_to_graph_variable() -> None:
    pair = Tuple([const(0), const(0)])
    a = Var("a")
    assert str(Let(a, pair, pair)) == "%0 = (0, 0);\nlet %a = %0;\n%0"
    assert str(Let(a, pair, a)) == "let %a = (0, 0);\n%a"


def test_operands_of_arguments_precede_arguments() -> None:
    assert body_of(F(G(H(X)), K(H(Y)))) == ("%0 = @h(%x);\n%1 = @h(%y);\n%2 = @g(%0);\n%3 = @k(%1);\n@f(%2, %3)")


def test_called_function_follows_its_arguments() -> None:
    a = Var("a")
    assert body_of(Call(Function([a], a), [X + Y])) == ("%0 = add(%x, %y);\n%1 = fn (%a) {\n  %a\n};\n%1(%0)")


def test_operands_of_let_precede_it() -> None:
    a, b = Var("a"), Var("b")
    chain = Let(a, F(G(X)), Let(b, F(G(a)), F(G(b))))
    assert body_of(chain) == ("%0 = @g(%x);\nlet %a = @f(%0);\n%1 = @g(%a);\nlet %b = @f(%1);\n%2 = @g(%b);\n@f(%2)")


def test_let_operand_is_parenthesized() -> None:
    a = Var("a")
    assert body_of(F(Let(a, G(H(X)), a))) == "%0 = @h(%x);\n%1 = (\n  let %a = @g(%0);\n  %a\n);\n@f(%1)"


def test_let_value_of_let_is_parenthesized() -> None:
    a, b = Var("a"), Var("b")
    assert body_of(Let(a, Let(b, X, b), a)) == "let %a = (\n  let %b = %x;\n  %b\n);\n%a"


def test_branches_have_separate_lines() -> None:
    cond = var("c", dtype="bool", shape=())
    shared = F(X)
    choice = If(G(cond), H(shared), Tuple([shared, H(H(Y))]))
    assert str(Function([cond, X, Y], choice)).splitlines()[1:-1] == [
        "  %0 = @g(%c);",
        "  if (%0) {",
        "    %1 = @f(%x);",
        "    @h(%1)",
        "  } else {",
        "    %2 = @h(%y);",
        "    %3 = @h(%2);",
        "    (%1, %3)",
        "  }",
    ]


def test_conditional_precedes_later_use_of_branch_variable() -> None:
    shared = F(X)
    choice = If(const(True), G(shared), X)
    assert body_of(Tuple([choice, H(K(shared))])) == (
        "%1 = if (True) {\n  %0 = @f(%x);\n  @g(%0)\n} else {\n  %x\n};\n%2 = @k(%0);\n%3 = @h(%2);\n(%1, %3)"
    )


def test_shared_let_body_is_printed_once() -> None:
    a, b = Var("a"), Var("b")
    inner = Let(b, X, b)
    assert body_of(Tuple([Let(a, Y, inner), inner])) == (
        "%1 = (\n  let %a = %y;\n  %0 = (\n    let %b = %x;\n    %b\n  );\n  %0\n);\n(%1, %0)"
    )


def test_clause_results_are_in_braces() -> None:
    header = GlobalTypeVar("List")
    cons, nil = Constructor("Cons", [header, header], header), Constructor("Nil", [], header)
    head = Var("head")
    clauses = [
        Clause(PatternConstructor(cons, [PatternVar(head), PatternWildcard()]), F(G(head))),
        Clause(PatternConstructor(nil), Call(nil, [])),
    ]
    expected = (
        "({}) {{\n  Cons(%head, _) => {{\n    %0 = @g(%head);\n    @f(%0)\n  }},\n  Nil => {{\n    Nil\n  }},\n}}"
    )
    assert body_of(Match(X, clauses)) == "match " + expected.format("%x")
    assert body_of(Match(X, clauses, complete=False)) == "match? " + expected.format("%x")


def test_references_and_tuples_are_printed() -> None:
    pair = Tuple([X, Y])
    assert body_of(RefWrite(RefCreate(X), RefRead(Y))) == "%0 = ref(%x);\n%1 = ref_read(%y);\nref_write(%0, %1)"
    assert body_of(TupleGetItem(pair, 1)) == "%0 = (%x, %y);\n%0.1"
    assert body_of(Tuple([X])) == "(%x,)"
    assert body_of(Tuple([])) == "()"
    assert body_of(TupleGetItem(const(1), 0)) == "(1).0"


def test_free_variables_are_declared_before_their_first_use() -> None:
    assert str(X + Var("z")) == "free_var %x: Tensor[(10), float32];\nfree_var %z;\nadd(%x, %z)"


# Names.


def test_names_are_unique_in_module() -> None:
    first = Function([X], F(G(X)))
    other = var("x", shape=())
    mod = IRModule({F: first, G: Function([other], F(G(other)))})
    assert str(mod) == (
        "def @f(%x: Tensor[(10), float32]) {\n  %0 = @g(%x);\n  @f(%0)\n}\n\n"
        "def @g(%x1: float32) {\n  %1 = @g(%x1);\n  @f(%1)\n}\n"
    )


def test_functions_with_shared_nodes_are_printed_separately() -> None:
    shared = Function([X], F(G(X)))
    assert str(IRModule({F: shared, G: shared})) == (
        "def @f(%x: Tensor[(10), float32]) {\n  %0 = @g(%x);\n  @f(%0)\n}\n\n"
        "def @g(%x1: Tensor[(10), float32]) {\n  %1 = @g(%x1);\n  @f(%1)\n}\n"
    )


def test_invalid_identifiers_are_prefixed_or_quoted() -> None:
    names = ["0", "", "_a", "x1", "input.1", "a b"]
    params = [Var(name) for name in names]
    text = str(Function(params, GlobalVar("run-1")))
    assert text == 'fn (%v0, %v, %v_a, %x1, %"input.1", %"a b") {\n  @"run-1"\n}'


def test_second_binding_of_variable_is_marked() -> None:
    a = Var("a")
    assert str(Let(a, const(1), Let(a, const(2), a))) == "let %a = 1;\nlet %a-malformed-ir = 2;\n%a"


def test_shadowing_type_parameters_are_renamed() -> None:
    outer, inner = TypeVar("A"), TypeVar("A")
    x, y = Var("x", outer), Var("y", inner)
    text = str(Function([x], Function([y], Tuple([x, y]), TupleType([outer, inner]), [inner]), None, [outer]))
    assert text == "fn [A](%x: A) {\n  fn [A1](%y: A1) -> (A, A1) {\n    (%x, %y)\n  }\n}"


# Scalars, and tensors in the metadata.


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(1), "1f"),
        (np.float32(0.1), "0.1f"),
        (np.float32(1e-5), "1e-05f"),
        (np.float32(-0.0), "-0f"),
        (np.float32(1 / 3), "0.33333334f"),
        (np.float64(0.5), "0.5f64"),
        (np.int32(-2), "-2"),
        (np.int64(7), "7i64"),
        (np.bool_(True), "True"),
        (np.bool_(False), "False"),
        (np.float32("nan"), "meta[relay.Constant][0]"),
        (np.float32("-inf"), "meta[relay.Constant][0]"),
        (np.float16(1), "meta[relay.Constant][0]"),
        (np.uint8(1), "meta[relay.Constant][0]"),
        (np.zeros((1,), "float32"), "meta[relay.Constant][0]"),
    ],
)
def test_scalar_is_inline_when_exact(value: np.generic, text: str) -> None:
    assert astext(Constant(value), show_meta_data=False).splitlines()[1] == text


def test_metadata_has_format_of_tvm() -> None:
    array = np.array([1.0, 2.0], "float32")
    header = bytes.fromhex("3fa1b496f0405edd 0000000000000000 01000000 00000000 01000000 02200100 0200000000000000")
    tensor = b64encode(header + (8).to_bytes(8, "little") + array.tobytes()).decode()
    shared = Constant(array)
    assert astext(Tuple([shared, shared])) == (
        '#[version = "0.0.5"]\n(meta[relay.Constant][0], meta[relay.Constant][0])\n'
        '#[metadata]\n{\n  "root": 1, \n  "nodes": [\n    {\n      "type_key": ""\n    }, \n'
        '    {\n      "type_key": "Map", \n      "keys": [\n        "relay.Constant"\n      ], \n'
        '      "data": [2]\n    }, \n'
        '    {\n      "type_key": "Array", \n      "data": [3]\n    }, \n'
        '    {\n      "type_key": "relay.Constant", \n      "attrs": {\n        "_checked_type_": "0", \n'
        '        "data": "0", \n        "span": "0"\n      }\n    }\n  ], \n'
        f'  "b64ndarrays": [\n    "{tensor}"\n  ], \n  "attrs": {{"tvm_version": "0.8.0"}}\n}}'
    )


def test_pretty_print_omits_metadata() -> None:
    assert pretty_print(Constant([1.0])) == (
        "meta[relay.Constant][0]\n"
        "/* For debugging purposes the metadata section has been omitted.\n"
        " * If you would like to see the full metadata section you can set the \n"
        " * option to `True` when invoking `astext`. \n"
        " */"
    )


def test_unsupported_attribute_is_printed_without_metadata_only() -> None:
    func = Function([], const(1), attrs={"handle": 1 + 2j})
    assert str(func) == "fn (handle=(1+2j)) {\n  1\n}"
    message = "a value of type complex has no form in JSON: (1+2j); expected an expression, "
    with pytest.raises(MetadataError, match=f"^{re.escape(message)}"):
        astext(func)


# Attributes.


def test_non_default_attributes_are_printed() -> None:
    conv = Call(Op.get("nn.conv2d"), [X, Y], Op.get("nn.conv2d").make_attrs(channels=2, kernel_size=(3, 3)))
    assert body_of(conv) == "nn.conv2d(%x, %y, channels=2, kernel_size=[3, 3])"
    clip = Call(Op.get("clip"), [X], Op.get("clip").make_attrs(a_min=float("-inf"), a_max=0.1))
    assert body_of(clip) == "clip(%x, a_min=-inff, a_max=0.1f)"


def test_all_function_attributes_are_printed() -> None:
    attrs = {"Primitive": 1, "Compiler": 'd"n\né', "list": ["a", 1.0, None, (True,)], "r.e": 0, "type": 1, "a b": 2}
    assert str(Function([X], X, attrs=attrs)).splitlines()[0] == (
        r"fn (%x: Tensor[(10), float32], "
        r'Primitive=1, Compiler="d\"n\n\303\251", list=["a", 1f, None, [True]], r.e=0, "type"=1, "a b"=2) {'
    )


def test_attributes_of_other_class_keep_their_class() -> None:
    attrs = DictAttrs({"a": 1})
    assert body_of(Call(Op.get("nn.relu"), [X], attrs)) == "nn.relu(%x, a=1)"
    assert astext(Call(Op.get("nn.relu"), [X], attrs)).splitlines()[2] == "nn.relu(%x, meta[DictAttrs][0])"
    assert body_of(Call(F, [X], attrs)) == '@f(%x, a=1, attrs_type_key="DictAttrs")'
    nested = DictAttrs({"a": DictAttrs({"b": 1}), "c": {"d": 2}, "e": F})
    assert body_of(Call(F, [], nested)) == '@f(a={b=1}, c={"d"=2}, e=\'f\', attrs_type_key="DictAttrs")'


# Types.


@pytest.mark.parametrize(
    ("ty", "text"),
    [
        (TensorType(()), "float32"),
        (TensorType((1, Any()), "int8"), "Tensor[(1, ?), int8]"),
        (TensorType((ShapeVar("n"), 2)), "Tensor[(meta[tir.Var][0], 2), float32]"),
        (TupleType([TensorType(())]), "(float32,)"),
        (TupleType([]), "()"),
        (RefType(TensorType(())), "ref(float32)"),
        (TypeCall(GlobalTypeVar("List"), [TensorType(())]), "List[float32]"),
        (TypeCall(GlobalTypeVar("Nat"), []), "Nat[]"),
        (IncompleteType(), "_"),
        (TypeRelation("Broadcast", [TensorType(())], 1), "Broadcast(float32)"),
    ],
)
def test_type_is_printed(ty: TensorType, text: str) -> None:
    assert pretty_print(ty).splitlines()[0] == text


def test_nested_function_types_rename_type_parameters() -> None:
    a, b = TypeVar("A"), TypeVar("A")
    assert pretty_print(FuncType([a, FuncType([a, b], b, [b])], a, [a])) == "fn [A](A, fn [A1](A, A1) -> A1) -> A"


def test_data_type_lists_constructors() -> None:
    header, a = GlobalTypeVar("List"), TypeVar("A")
    cons = Constructor("Cons", [a, TypeCall(header, [a])], header)
    mod = IRModule({}, {header: TypeData(header, [a], [cons, Constructor("Nil", [], header)])})
    assert str(mod) == "type List[A] {\n  Cons(A, List[A]),\n  Nil,\n}\n"


def test_inferred_types_are_printed_as_comments() -> None:
    mod = infer_module(IRModule.from_expr(Function([X], (X + const(1.0)) * const(np.ones(10, "float32")))))
    assert str(mod["main"]).splitlines()[:4] == [
        "fn (%x: Tensor[(10), float32]) -> Tensor[(10), float32] {",
        "  %0 = add(%x, 1f /* ty=float32 */) /* ty=Tensor[(10), float32] */;",
        "  multiply(%0, meta[relay.Constant][0] /* ty=Tensor[(10), float32] */) /* ty=Tensor[(10), float32] */",
        "}",
    ]


def test_annotate_replaces_type_comments() -> None:
    func = Function([X], F(G(X)))
    shown = func.astext(annotate=lambda expr: "" if isinstance(expr, GlobalVar) else f" /* {type(expr).__name__} */")
    assert shown.splitlines()[1:] == [
        "fn (%x: Tensor[(10), float32] /* Var */) {",
        "  %0 = @g(%x) /* Call */;",
        "  @f(%0) /* Call */",
        "} /* Function */",
    ]


# Names of sources.


def named_call(name: str) -> Call:
    """Return a call whose span has the name of a node of an imported model."""
    add = Op.get("add")
    return Call(add, (X, Y), None, None, Span(SourceName(name), 0, 0, 0, 0))


def test_name_of_source_follows_call() -> None:
    total = named_call("Add0")
    outer = Call(total.op, (total, total), None, None, Span(SourceName("Add1"), 0, 0, 0, 0))
    assert body_of(outer) == "%0 = add(%x, %y) /* Add0 */;\nadd(%0, %0) /* Add1 */"


def test_name_of_source_precedes_type() -> None:
    mod = infer_module(IRModule.from_expr(Function([X, Y], named_call("Add0"))))
    assert "add(%x, %y) /* Add0 */ /* ty=Tensor[(10), float32] */" in str(mod)
    noted = Function([X, Y], named_call("Add0")).astext(annotate=lambda expr: "!" if isinstance(expr, Call) else "")
    assert "add(%x, %y) /* Add0 */!" in noted


def test_spans_of_other_nodes_are_not_printed() -> None:
    span = Span(SourceName("Split0"), 0, 0, 0, 0)
    assert body_of(TupleGetItem(Tuple([X, Y], span), 0, span)) == "%0 = (%x, %y);\n%0.0"
    assert body_of(Call(Constructor("Unit", (), GlobalTypeVar("U")), (), None, None, span)) == "Unit"


def test_name_of_parsed_text_is_not_printed() -> None:
    text = "free_var %x: int32;\nadd(%x, %x)"
    assert str(parse_expr(text)) == text


@pytest.mark.parametrize("name", ["Add0", "a */ b", "/* a", "*/", "/*/", "", "a\nb", "\n", "// a", "a/b/Add:0", "%x"])
def test_name_of_source_is_a_comment(name: str) -> None:
    func = Function([X, Y], named_call(name))
    text = astext(func)
    assert " /* " in text
    assert structural_equal(parse_expr(text), func)


# Depth and errors.


def test_printer_accepts_deep_calls_and_lets() -> None:
    expr: Expr = X
    for _ in range(levels(20_000)):
        expr = F(expr)
    assert str(expr).count("\n") == levels(20_000)
    for _ in range(levels(5_000)):
        expr = Let(Var("a"), X, RefWrite(X, expr))
    assert str(expr).count("let") == levels(5_000)


def test_printer_accepts_deep_types() -> None:
    ty: Type = TensorType(())
    for _ in range(1_000):
        ty = FuncType([], RefType(TupleType([ty])))
    assert pretty_print(ty) == "fn () -> ref((" * 1_000 + "float32" + ",))" * 1_000


def test_unknown_expression_class_raises() -> None:
    class Other(Expr):
        pass

    with pytest.raises(TypeError, match=r"^cannot print <relay.Other>: expected a Relay expression$"):
        pretty_print(Other())


def test_printing_other_object_raises() -> None:
    with pytest.raises(TypeError, match=r"^cannot print 5: expected a Relay module, expression, type or pattern$"):
        astext(typing.cast("Expr", 5))


def test_patterns_are_printed() -> None:
    assert pretty_print(PatternVar(Var("a", TensorType(())))) == "%a: float32"
    assert pretty_print(PatternWildcard()) == "_"


def test_escaped_string_is_parsed() -> None:
    func = parse_expr(r'fn (a="\x41\101\n\"") { 1 }')
    assert isinstance(func, Function)
    assert func.attrs["a"] == 'AA\n"'
