"""Type keys of attributes, `make_node`, and identity of nodes."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from apass import relay
from apass.core.diagnostics import Span
from apass.errors import PassRegistrationError
from apass.relay import te
from apass.relay.errors import SerializationError, UnknownTypeKeyError
from apass.relay.expr import OPS, Call, Expr, Op
from apass.relay.ir.attrs import Attrs, DictAttrs
from apass.relay.ir.base import Id, Node, SourceName
from apass.relay.ir.expr import const, var
from apass.relay.ir.immediates import IntImm
from apass.relay.ir.map import Map
from apass.relay.ir.type_keys import attrs_key, attrs_type_of
from apass.relay.op.define.registry import register
from apass.relay.op.op_attrs import Conv2DAttrs
from apass.relay.structural.equality import structural_equal
from apass.relay.text.parsing.reader import read_expr, read_module
from apass.relay.ty import SizeVar, TensorType


@relay.register_object("tests.ScaleAttrs")
@dataclass(frozen=True, slots=True)
class ScaleAttrs(Attrs):
    factor: float = 1.0
    name: str = ""
    dtype: str = ""
    bias: Expr | None = None


class ClipAttrs(Attrs):
    """A class with the name of a class of this package."""


@pytest.fixture(name="op")
def _op() -> Iterator[Op]:
    register("tests.scale")
    op = Op.get("tests.scale")
    op.set_attrs_type_key("tests.ScaleAttrs")
    yield op
    del OPS["tests.scale"]


def test_own_attributes_are_printed_parsed_and_written(op: Op) -> None:
    attrs = op.make_attrs(factor=0.5, name="12", dtype="34")
    assert isinstance(attrs, ScaleAttrs)
    call = Call(op, [var("x")], attrs)
    for again in (read_expr(call.astext()), relay.load_json(relay.save_json(call))):
        assert isinstance(again, Call)
        assert again.attrs == attrs
    with_bias = ScaleAttrs(bias=const(1.0))
    assert structural_equal(relay.load_json(relay.save_json(with_bias)), with_bias)


def test_callee_without_class_names_type_key() -> None:
    text = relay.Function([], Call(var("f"), [], ScaleAttrs(factor=2.0))).astext()
    assert 'attrs_type_key="tests.ScaleAttrs"' in text


def test_make_node_returns_attributes() -> None:
    attrs = relay.make_node("relay.attrs.Conv2DAttrs", strides=[2, 2], channels=8)
    assert attrs == Conv2DAttrs(strides=(2, 2), channels=8)
    assert relay.make_node("DictAttrs", a=[1, [2]])["a"] == (1, (2,))
    with pytest.raises(TypeError, match=r"^relay.attrs.Conv2DAttrs has no field 'stride'; did you mean 'strides'\?"):
        relay.make_node("relay.attrs.Conv2DAttrs", stride=1)
    with pytest.raises(UnknownTypeKeyError, match=r"^unknown attributes class 'relay.attrs.SoftmaxAttr'; did you"):
        relay.make_node("relay.attrs.SoftmaxAttr")
    with pytest.raises(TypeError, match="dtype"):
        relay.make_node("relay.attrs.CastAttrs")


def test_type_key_belongs_to_one_class() -> None:
    assert (attrs_key(ScaleAttrs), attrs_type_of("tests.ScaleAttrs")) == ("tests.ScaleAttrs", ScaleAttrs)
    message = r"^type key 'tests.ScaleAttrs' is already registered for ScaleAttrs; use another key$"
    with pytest.raises(PassRegistrationError, match=message):
        relay.register_object("tests.ScaleAttrs")(ClipAttrs)
    with pytest.raises(TypeError, match=r"^the object of type key 'tests.Number' must be a subclass of Attrs, got "):
        relay.register_object("tests.Number")(int)  # type: ignore[type-var]
    message = r"^the class of attributes ClipAttrs has no type key; register it with relay.register_object$"
    with pytest.raises(SerializationError, match=message):
        relay.save_json(ClipAttrs())


def test_size_var_is_a_dimension() -> None:
    n = te.size_var("n", "int64")
    x = var("x", shape=(n, 3))
    func = relay.Function([x], x)
    again = read_module(relay.IRModule.from_expr(func).astext())["main"].params[0].checked_type
    assert isinstance(again, TensorType)
    dim = again.shape[0]
    assert isinstance(dim, SizeVar)
    assert (dim.name, dim.dtype) == ("n", "int64")
    assert str(x.type_annotation) == "Tensor[(n, 3), float32]"
    same = var("x", shape=(te.size_var("m", "int64"), 3))
    plain = var("x", shape=(te.var("m", "int64"), 3))
    assert structural_equal(func, relay.Function([same], same))
    assert not structural_equal(func, relay.Function([plain], plain))
    assert (te.var().name, te.size_var().name, te.var().dtype) == ("tindex", "size", "int32")


NODES: list[Node | Span] = [
    var("x"),
    const(1),
    Op.get("add"),
    relay.GlobalVar("f"),
    relay.TensorType((1,)),
    relay.FuncType([], relay.TupleType([])),
    relay.TypeVar("a"),
    relay.GlobalTypeVar("A"),
    relay.IncompleteType(),
    relay.PatternWildcard(),
    relay.PatternVar(var("x")),
    relay.Clause(relay.PatternWildcard(), var("x")),
    relay.TypeData(relay.GlobalTypeVar("A"), [], []),
    relay.IRModule(),
    DictAttrs({"a": 1}),
    Conv2DAttrs(),
    relay.Any(),
    te.var("n"),
    relay.Span("text", 1, 1, 1, 2),
    SourceName("text"),
    Id("x"),
    IntImm(3),
    Map({"a": 1}),
]


@pytest.mark.parametrize("node", NODES, ids=lambda node: type(node).__name__)
def test_same_as_means_identity(node: Node | Span) -> None:
    assert node.same_as(node)
    assert not any(node.same_as(other) for other in NODES if other is not node)
    assert not node.same_as(None)
