"""The parser says where a text is wrong, what was found and what was expected, and what to do."""

import pytest

from apass.relay.errors import ParseError
from apass.relay.make import const
from apass.relay.parser import fromtext, parse, parse_expr
from apass.relay.text.metadata import MetaTable


def error_of(text: str) -> str:
    """Return the message of the error about a module's text."""
    with pytest.raises(ParseError) as caught:
        parse(text)
    return str(caught.value)


def test_what_was_found_and_what_was_expected() -> None:
    assert error_of("def @main(%x: int32) {\n  let %y = %x)\n  %y\n}") == (
        "error: expected `;`, found `)`\n --> from_string:2:14\n  |\n2 |   let %y = %x)\n  |              ^"
    )


def first_line_and_place(text: str) -> tuple[str, str]:
    """Return the message about a text, and what the caret stands under."""
    lines = error_of(text).split("\n")
    under = lines[4]
    start = under.index("^")
    return lines[0].removeprefix("error: "), lines[3][start : start + under.count("^")]


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("def @f() { 1 2 }", "expected `;` or `}`, found a number `2`", "2"),
        ("def @f() { }", "expected an expression, found `}`", "}"),
        ("def @f() { let x = 1; x }", "expected a variable, found a name `x`", "x"),
        ("def @f(%x: ) { 1 }", "expected a type, found `)`", ")"),
        ("def @f(%x: Tensor[(a), int8]) { 1 }", "expected a dimension or `)`, found a name `a`", "a"),
        ("def @f() { match (1) { 1 => 2 } }", "expected a pattern or `}`, found a number `1`", "1"),
        ("def @f() { add(1, }", "expected an expression or `)`, found `}`", "}"),
        ("def @f() { clip(1, a_min=%x) }", "expected a value for the attribute, found a variable `%x`", "%x"),
        ("def @f( { 1 }", "expected `)`, a name or a variable, found `{`", "{"),
        ("foo", "expected a definition or the end of the text, found a name `foo`", "foo"),
        ("def @f() { $ }", "expected an expression, found `$`", "$"),
        ('def @f() { "abc', "this string does not end on its line", '"'),
        ("def @f() { /* a /* b */ 1 }", "this comment is not closed", "/*"),
        (
            "def @f() { nn.conv2(1) }",
            "there is no operator or constructor `nn.conv2`; did you mean 'nn.conv2d'?",
            "nn.conv2",
        ),
        ("def @f(%xs: int32) { %x }", "there is no variable `%x` here; did you mean '%xs'?", "%x"),
        ("def @f() { { let %x = 1; %x } + %x }", "there is no variable `%x` here", "%x"),
        ("def @f(%xs: int32) { add(%xs, %x) }", "there is no variable `%x` here; did you mean '%xs'?", "%x"),
        ("def @f(%xs: int32) { add(%xs, %7) }", "there is no graph variable `%7` yet", "%7"),
        ("def @f(%xs: int32) { addd(%xs, %xs) }", "there is no operator or constructor `addd`; did you mean", "addd"),
        (
            "type T { C } def @f() { match (C) { C(%x, %7) => 1 } }",
            "expected a pattern, found a graph variable `%7`",
            "%7",
        ),
        ("type T { C } def @f() { match (C) { D(%x, %y) => 1 } }", "there is no constructor `D`; there are: C", "D"),
        ("def @f() { %1 }", "there is no graph variable `%1` yet", "%1"),
        ("def @f() { nn.softmax(1, axs=1) }", "`nn.softmax` has no attribute `axs`; did you mean 'axis'?", "axs"),
        ("def @f() { add(1, 2, axis=1) }", "`add` has no attribute `axis`; it has none", "axis"),
        ("def @f() { nn.softmax(1, axis=1, axis=2) }", "the attribute `axis` is given twice", "axis"),
        ("def @f() { cast(1) }", "`cast` needs the attribute `dtype`", "cast(1)"),
        ("def @f() { clip(1, a_min=zero) }", "`zero` is no value of an attribute", "zero"),
        ("def @f() { clip(1, a_min=-None) }", "`None` is no number", "-None"),
        ("def @f() { 3000000000 }", "`3000000000` does not fit int32; write `3000000000i64`", "3000000000"),
        ("def @f() { 300u8 }", "`300u8` does not fit uint8", "300u8"),
        ("def @f() { 1i7 }", "`1i7` has a suffix that names no element type: int7", "1i7"),
        ("def @f() { 1.5i8 }", "`1.5i8` is no integer, but has the suffix of one", "1.5i8"),
        ("def @f(%x: Tensor[(1.5), int8]) { 1 }", "`1.5` is no integer", "1.5"),
        (
            "def @f(%x: Tensor[(1), floot32]) { 1 }",
            "`floot32` is no element type; did you mean 'float32'?",
            "floot32",
        ),
        ("def @f() { 1 } def @f() { 2 }", "the function `@f` was defined before", "@f"),
        ("type T { A } type T { B }", "the type `T` was defined before", "T"),
        ("type T { A } type S[B] { A }", "the constructor `A` was defined before", "A"),
        ("type T[A, A] { B }", "there are two type parameters named `A`", "type T[A, A]"),
        ("extern type T { A }", "`T` is an external type, which has no constructors", "extern type T { A }"),
        ("type List { Nil } def @f(%x: Lisp) { 1 }", "there is no type `Lisp`; did you mean 'List'?", "Lisp"),
        ("def @f(%x: int8, %x: int8) { 1 }", "there are two parameters `%x`", "%x"),
        ("def @f() { match (1) { Conz(_) => 1 } }", "there is no constructor `Conz`", "Conz"),
        ("def @f() { meta[A][0] }", "the metadata have no entry `A`; there is none at all", "meta[A][0]"),
        (
            '#[version = "0.0.4"] def @f() { 1 }',
            "version 0.0.4 of the text format is not known",
            '#[version = "0.0.4"]',
        ),
        (
            'def @f() { @g(a=1, attrs_type_key="DictAttr") }',
            "the attributes are not right: there is no class of attributes named 'DictAttr'; did you mean 'DictAttrs'?",
            '@g(a=1, attrs_type_key="DictAttr")',
        ),
        (
            "def @f() { 1 }\n#[metadata]\n[]",
            "the metadata are not of TVM's form: TypeError: list indices",
            "#[metadata]",
        ),
    ],
)
def test_errors_say_what_is_wrong_and_point_at_it(text: str, message: str, place: str) -> None:
    found, pointed_at = first_line_and_place(text)
    assert found.startswith(message)
    assert pointed_at == place


def test_references_to_metadata_are_checked() -> None:
    table: MetaTable = {"relay.Constant": [const(1)], "Map": [{}]}

    def error(text: str) -> str:
        with pytest.raises(ParseError) as caught:
            parse(text, init_meta_table=table)
        return str(caught.value).split("\n")[0].removeprefix("error: ")

    assert error("def @f() { meta[relay.Constant][1] }") == (
        "the metadata have only 1 of `relay.Constant`, counted from 0"
    )
    assert error("def @f() { meta[relay.Constnt][0] }") == (
        "the metadata have no entry `relay.Constnt`; did you mean 'relay.Constant'?"
    )
    assert error("def @f() { meta[Map][0] }") == "`meta[Map][0]` is no expression, but {}"
    assert error("def @f(%x: meta[Map][0]) { 1 }") == "`meta[Map][0]` is no type, but {}"
    assert error("def @f(%x: Tensor[(meta[Map][0]), int8]) { 1 }") == "`meta[Map][0]` is no dimension, but {}"


def test_advice_stands_below() -> None:
    assert error_of("def @f() { match (1) { Conz => 1 } }").split("\n")[-1] == (
        "help: write `%Conz` if it is meant to be a variable"
    )


def test_broken_metadata_are_told() -> None:
    text = const([1.0]).astext()
    for broken, wanted in (
        (text.replace("P6G0", "AAAA"), "the metadata hold a broken constant: there is no tensor"),
        (text.replace('"P6G0', '"'), "the metadata hold a broken constant: "),
        (text.replace("IgAQAB", "IwAQAB"), "numpy has not: float48 of 1 lanes"),
        (text.replace('"root": 1', '"root": 2'), "the metadata hold no table, but "),
        (text.replace('"data": [2]', '"date": [2]'), "a node of type Array has no data"),
        (text[:-1], "the metadata are not JSON: "),
    ):
        with pytest.raises(ParseError) as caught:
            parse_expr(broken)
        assert wanted in str(caught.value)


def test_fromtext_wants_the_version() -> None:
    assert fromtext('// a comment\n#[version = "0.0.5"]\ndef @f() { 1 }')["f"].params == ()
    with pytest.raises(ParseError) as caught:
        fromtext("def @f() { 1 }")
    assert str(caught.value) == (
        "error: the text does not name its version\n"
        " --> from_string:1:1\n"
        "  |\n"
        "1 | def @f() { 1 }\n"
        "  | ^\n"
        'help: write `#[version = "0.0.5"]` before it'
    )
