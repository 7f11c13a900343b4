"""Expressions: Python operators build calls; attributes have TVM's accessors."""

from typing import cast

import numpy as np
import pytest

from apass.core.diagnostics import Span
from apass.relay import op
from apass.relay.base import Id, SourceName
from apass.relay.expr import Call, Expr, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.ir.expr import const, var
from apass.relay.op import nn
from apass.relay.parser import parse
from apass.relay.structural.equality import structural_equal
from apass.relay.ty import GlobalTypeVar, Kind, TypeVar, scalar_type

X, Y = var("x", shape=(2,)), var("y", shape=(2,))


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (X + Y, op.add(X, Y)),
        (X - Y, op.subtract(X, Y)),
        (X * Y, op.multiply(X, Y)),
        (X / Y, op.divide(X, Y)),
        (X < Y, op.less(X, Y)),
        (X > Y, op.greater(X, Y)),
        (X <= Y, op.less_equal(X, Y)),
        (X >= Y, op.greater_equal(X, Y)),
        (-X, op.negative(X)),
        (X.astype("int32"), op.cast(X, "int32")),
        (X(Y), Call(X, [Y])),
        (X[1], TupleGetItem(X, 1)),
    ],
)
def test_python_operator_builds_call(built: Expr, expected: Expr) -> None:
    assert structural_equal(built, expected)


def test_numeric_operand_is_rejected() -> None:
    with pytest.raises(TypeError, match=r"make a constant with relay.const\(1\)"):
        _ = X + 1
    with pytest.raises(TypeError, match=r"make a constant with relay.const\(2.5\)"):
        _ = 2.5 - X


def test_tuple_indexing_returns_fields() -> None:
    fields = (X, const(1))
    pair = Tuple(fields)
    assert (pair[0], pair[-1], tuple(pair), len(pair)) == (X, fields[1], fields, 2)
    with pytest.raises(IndexError):
        pair[2]


def test_expression_is_not_iterable() -> None:
    with pytest.raises(TypeError, match="not iterable"):
        tuple(X)


def test_same_as_compares_identity() -> None:
    assert (X.same_as(X), X.same_as(Y)) == (True, False)
    # One variable has one name, though `vid` is computed.
    assert (X.vid.same_as(X.vid), X.vid.same_as(Var("x").vid), Id("x").same_as(Id("x"))) == (True, False, False)
    assert SourceName("a.relay").same_as(SourceName("a.relay"))


def test_span_is_accepted_as_last_argument() -> None:
    span = None
    assert Call(X, [Y], None, None, span).span is Tuple([X], span).span is const(1, None, span).span


def test_attribute_getters_convert_types() -> None:
    attrs = nn.conv2d(X, Y, padding=1, groups=2).attrs
    assert attrs is not None
    assert (attrs.get_int("groups"), attrs.get_int_tuple("padding")) == (2, (1, 1, 1, 1))
    assert attrs.get_str("data_layout") == "NCHW"


def test_function_attributes_are_read_by_name() -> None:
    attrs = Function([X], X).with_attr("Composite", "dnnl.relu").attrs
    assert attrs.Composite == "dnnl.relu"
    with pytest.raises(AttributeError, match="no attribute 'Compiler'; expected one of: Composite"):
        _ = attrs.Compiler


def test_calling_type_applies_it_to_arguments() -> None:
    a = TypeVar("a")
    assert str(GlobalTypeVar("List")(a)) == "List[a]"
    assert str(TypeVar("f", Kind.AdtHandle)(a, a)) == "f[a, a]"


@pytest.mark.parametrize("value", ["text", None, {}])
def test_const_rejects_non_numeric_value(value: object) -> None:
    with pytest.raises(ValueError, match="a constant must be a number or an array of numbers, got"):
        const(cast("float", value))


def test_variable_has_name_as_vid() -> None:
    assert Var("x").vid == Id("x")
    assert Var("x").vid.name_hint == "x"


def test_parsed_span_has_source_name() -> None:
    span = parse("def @main() { 1 }", "main.relay")["main"].body.span
    assert span is not None
    assert span == Span(SourceName("main.relay"), 1, 1, 15, 16) == Span("main.relay", 1, 1, 15, 16)
    assert isinstance(span.source_name, SourceName)
    assert span.source_name.name == "main.relay"


def test_span_takes_lines_before_columns() -> None:
    span = Span(SourceName("main.relay"), 1, 2, 3, 4)
    assert (span.line, span.end_line, span.column, span.end_column) == (1, 2, 3, 4)


def test_const_accepts_type_as_dtype() -> None:
    assert const(0, scalar_type("int64")).data.dtype == np.dtype("int64")


def test_casting_tuple_raises() -> None:
    with pytest.raises(TypeError, match="cannot cast a tuple to int8"):
        Tuple([X]).astype("int8")
