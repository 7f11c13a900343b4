"""Parse errors: location, expected and found tokens, and advice."""

import pytest

from apass.relay.errors import ParseError
from apass.relay.ir.expr import const
from apass.relay.parser import fromtext, parse, parse_expr
from apass.relay.text.metadata import MetaTable


def error_of(text: str) -> str:
    """Return the error message for the text of a module."""
    with pytest.raises(ParseError) as caught:
        parse(text)
    return str(caught.value)


def test_syntax_error_shows_expected_token_and_location() -> None:
    assert error_of("def @main(%x: int32) {\n  let %y = %x)\n  %y\n}") == (
        "error: expected `;`, found `)`\n --> from_string:2:14\n  |\n2 |   let %y = %x)\n  |              ^"
    )


def message_and_marked_text(text: str) -> tuple[str, str]:
    """Return the first line of the error, and the source text above the carets."""
    lines = error_of(text).split("\n")
    under = lines[4]
    start = under.index("^")
    return lines[0].removeprefix("error: "), lines[3][start : start + under.count("^")]


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("def @f() { 1 2 }", "expected `;` or `}`, found a number `2`", "2"),
        ("def @f() { }", "expected an expression, found `}`", "}"),
        ("def @f() { let x = 1; x }", "expected a variable, found a name `x`", "x"),
        ("def @f(%x: ) { 1 }", "expected a type, found `)`", ")"),
        ("def @f(%x: Tensor[(a), int8]) { 1 }", "expected a dimension or `)`, found a name `a`", "a"),
        ("def @f() { match (1) { 1 => 2 } }", "expected a pattern or `}`, found a number `1`", "1"),
        ("def @f() { add(1, }", "expected an expression or `)`, found `}`", "}"),
        ("def @f() { clip(1, a_min=%x) }", "expected an attribute value, found a variable `%x`", "%x"),
        ("def @f( { 1 }", "expected `)`, a name or a variable, found `{`", "{"),
        ("foo", "expected a definition or the end of the text, found a name `foo`", "foo"),
        ("def @f() { $ }", "expected an expression, found `$`", "$"),
        ('def @f() { "abc', "unterminated string", '"'),
        ("def @f() { /* a /* b */ 1 }", "unterminated comment", "/*"),
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
        ("def @f() { nn.softmax(1, axis=1, axis=2) }", "duplicate attribute `axis`", "axis"),
        ("def @f() { cast(1) }", "`cast` requires the attribute `dtype`", "cast(1)"),
        ("def @f() { clip(1, a_min=zero) }", "`zero` is not an attribute value", "zero"),
        ("def @f() { clip(1, a_min=-None) }", "`None` is not a number", "-None"),
        ("def @f() { 9223372036854775808 }", "`9223372036854775808` does not fit int64", "9223372036854775808"),
        ("def @f() { 300u8 }", "`300u8` does not fit uint8", "300u8"),
        ("def @f() { 1i7 }", "`1i7` has an unknown element type int7 as its suffix", "1i7"),
        ("def @f() { 1.5i8 }", "`1.5i8` has an integer suffix, but is not an integer", "1.5i8"),
        ("def @f(%x: Tensor[(1.5), int8]) { 1 }", "`1.5` is not an integer", "1.5"),
        (
            "def @f(%x: Tensor[(1), floot32]) { 1 }",
            "`floot32` is not an element type; did you mean 'float32'?",
            "floot32",
        ),
        ("def @f() { 1 } def @f() { 2 }", "the function `@f` is already defined", "@f"),
        ("type T { A } type T { B }", "the type `T` is already defined", "T"),
        ("type T { A } type S[B] { A }", "the constructor `A` is already defined", "A"),
        ("type T[A, A] { B }", "duplicate type parameter `A`", "type T[A, A]"),
        ("extern type T { A }", "the external type `T` must not have constructors", "extern type T { A }"),
        ("type List { Nil } def @f(%x: Lisp) { 1 }", "there is no type `Lisp`; did you mean 'List'?", "Lisp"),
        ("def @f(%x: int8, %x: int8) { 1 }", "duplicate parameter `%x`", "%x"),
        ("def @f() { match (1) { Conz(_) => 1 } }", "there is no constructor `Conz`", "Conz"),
        ("def @f() { meta[A][0] }", "the metadata has no entry `A`; it is empty", "meta[A][0]"),
        (
            '#[version = "0.0.4"] def @f() { 1 }',
            "unsupported text format version 0.0.4",
            '#[version = "0.0.4"]',
        ),
        (
            'def @f() { @g(a=1, attrs_type_key="DictAttr") }',
            "invalid attributes: unknown attributes class 'DictAttr'; did you mean 'DictAttrs'?",
            '@g(a=1, attrs_type_key="DictAttr")',
        ),
        (
            "def @f() { 1 }\n#[metadata]\n[]",
            "the metadata is invalid: the text must be a JSON object, got a list",
            "#[metadata]",
        ),
    ],
)
def test_error_describes_and_marks_invalid_text(text: str, message: str, marked: str) -> None:
    first_line, marked_text = message_and_marked_text(text)
    assert first_line.startswith(message)
    assert marked_text == marked


def test_invalid_metadata_reference_raises() -> None:
    table: MetaTable = {"relay.Constant": [const(1)], "Map": [{}]}

    def error(text: str) -> str:
        with pytest.raises(ParseError) as caught:
            parse(text, init_meta_table=table)
        return str(caught.value).split("\n")[0].removeprefix("error: ")

    assert error("def @f() { meta[relay.Constant][1] }") == (
        "index 1 of `relay.Constant` is out of range; the metadata has 1"
    )
    assert error("def @f() { meta[relay.Constnt][0] }") == (
        "the metadata has no entry `relay.Constnt`; did you mean 'relay.Constant'?"
    )
    assert error("def @f() { meta[Map][0] }") == "`meta[Map][0]` must be an expression, got {}"
    assert error("def @f(%x: meta[Map][0]) { 1 }") == "`meta[Map][0]` must be a type, got {}"
    assert error("def @f(%x: Tensor[(meta[Map][0]), int8]) { 1 }") == "`meta[Map][0]` must be a dimension, got {}"


def test_error_ends_with_advice() -> None:
    assert error_of("def @f() { match (1) { Conz => 1 } }").split("\n")[-1] == (
        "help: write `%Conz` if it is meant to be a variable"
    )


def test_invalid_metadata_raises() -> None:
    text = const([1.0]).astext()
    for invalid, message in (
        (
            text.replace("P6G0", "AAAA"),
            "the metadata is invalid: node 3 (relay.Constant): tensor 0: invalid tensor: expected magic number",
        ),
        (text.replace('"P6G0', '"'), "the metadata is invalid: node 3 (relay.Constant): tensor 0: "),
        (text.replace("IgAQAB", "IwAQAB"), "numpy has no element type float48 with 1 lanes"),
        (text.replace('"root": 1', '"root": 2'), "the root of the metadata must be a table, got "),
        (text.replace('"data": [3]', '"date": [3]'), "index 0 of `relay.Constant` is out of range"),
        (text[:-1], "the metadata is invalid: the text is not valid JSON: "),
    ):
        with pytest.raises(ParseError) as caught:
            parse_expr(invalid)
        assert message in str(caught.value)


def test_fromtext_requires_version() -> None:
    assert fromtext('// a comment\n#[version = "0.0.5"]\ndef @f() { 1 }')["f"].params == ()
    with pytest.raises(ParseError) as caught:
        fromtext("def @f() { 1 }")
    assert str(caught.value) == (
        "error: the text has no version\n"
        " --> from_string:1:1\n"
        "  |\n"
        "1 | def @f() { 1 }\n"
        "  | ^\n"
        'help: start the text with `#[version = "0.0.5"]`'
    )
