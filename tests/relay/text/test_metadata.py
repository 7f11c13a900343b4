"""Metadata references: tables passed by the caller, TVM's files and round trips."""

import json

import numpy as np
import pytest

from apass.relay.expr import Call, Constant, GlobalVar, Op, Var
from apass.relay.function import Function
from apass.relay.ir.attrs import DictAttrs
from apass.relay.ir.expr import const
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.parser import fromtext, parse, parse_expr
from apass.relay.text.metadata import MetadataError, MetadataWriter, read_metadata
from apass.relay.text.tensors import TensorFormatError, tensor_from_base64, tensor_to_base64
from apass.relay.ty import Any, ShapeVar, TensorType


def test_parse_accepts_metadata_table() -> None:
    mod = parse(
        "def @f(a=meta[Any][0]) { meta[relay.Constant][1] }",
        init_meta_table={
            "relay.Constant": [const(1), const([2.0])],
            "Any": ["a"],
        },
    )
    body = mod["f"].body
    assert isinstance(body, Constant)
    assert body.data.tolist() == [2.0]
    assert mod["f"].attrs["a"] == "a"


def test_dimensions_with_same_reference_are_identical() -> None:
    batch = ShapeVar("n")
    param = Var("x", TensorType((batch, batch, ShapeVar("m"))))
    again = fromtext(IRModule.from_expr(Function([param], param)).astext())["main"].params[0].checked_type
    assert isinstance(again, TensorType)
    first, second, last = again.shape
    assert first is second
    assert isinstance(last, ShapeVar)
    assert last.name == "m"


def test_metadata_written_by_tvm_is_parsed() -> None:
    nodes = [
        {"type_key": ""},
        {"type_key": "Map", "keys": ["relay.Constant", "tir.SizeVar"], "data": [2, 4]},
        {"type_key": "Array", "data": [3]},
        {"type_key": "relay.Constant", "attrs": {"_checked_type_": "6", "data": "0", "span": "0"}},
        {"type_key": "Array", "data": [5]},
        {"type_key": "tir.SizeVar", "attrs": {"dtype": "int32", "name": "7", "span": "0", "type_annotation": "0"}},
        {"type_key": "relay.TensorType", "attrs": {"dtype": "float32", "shape": "0", "span": "0"}},
        {"type_key": "runtime.String", "repr_str": "n"},
    ]
    tensor = "P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAQAAAAIgAQABAAAAAAAAAAQAAAAAAAAAAACAPw=="
    section = json.dumps({"root": 1, "nodes": nodes, "b64ndarrays": [tensor], "attrs": {"tvm_version": "0.8.0"}})
    mod = fromtext(
        '#[version = "0.0.5"]\ndef @main(%x: Tensor[(meta[tir.SizeVar][0]), int8]) { meta[relay.Constant][0] }\n'
        f"#[metadata]\n{section}"
    )
    body = mod["main"].body
    assert isinstance(body, Constant)
    np.testing.assert_array_equal(body.data, np.ones(1, "float32"))


def test_metadata_values_round_trip() -> None:
    inner = DictAttrs({"a": 1, "b": (1.5, "s", None, True), "c": ShapeVar("n")})
    softmax = Op.get("nn.softmax").make_attrs(axis=3)
    values: list[object] = [GlobalVar("f"), Any(), softmax, inner, {"k": (1, 2)}, {}, 7, False, -0.5, "text", (1, "a")]
    writer = MetadataWriter()
    references = [writer.reference(value) for value in values]
    assert references == [writer.reference(value) for value in values]
    assert references[:3] == ["meta[GlobalVar][0]", "meta[tir.Any][0]", "meta[relay.attrs.SoftmaxAttrs][0]"]
    assert references[3:6] == ["meta[DictAttrs][0]", "meta[Map][0]", "meta[Map][1]"]
    table = read_metadata(writer.section())
    gvar, attrs = table["GlobalVar"][0], table["DictAttrs"][0]
    assert isinstance(gvar, GlobalVar)
    assert isinstance(attrs, DictAttrs)
    assert gvar.name_hint == "f"
    assert attrs["b"] == inner["b"]
    assert isinstance(attrs["c"], ShapeVar)
    assert table["tir.Any"] == (Any(),)
    assert table["relay.attrs.SoftmaxAttrs"] == (softmax,)
    assert table["Map"] == ({"k": (1, 2)}, {})
    assert table["IntImm"] == (7, False)
    assert table["FloatImm"] == (-0.5,)
    assert table["runtime.String"] == ("text",)
    assert table["Array"] == ((1, "a"),)


def test_call_attributes_in_metadata_round_trip() -> None:
    attrs = DictAttrs({"a": {"b": 1}, "c": GlobalVar("f")})
    call = Call(Op.get("nn.softmax"), [const(1)], attrs)
    again = parse_expr(call.astext())
    assert isinstance(again, Call)
    assert len(again.args) == 1
    assert isinstance(again.attrs, DictAttrs)
    assert again.attrs["a"] == {"b": 1}
    assert isinstance(gvar := again.attrs["c"], GlobalVar)
    assert gvar.name_hint == "f"


def test_writing_tensor_of_unsupported_type_raises() -> None:
    message = "^cannot write a tensor of complex128: TVM has no such element type$"
    with pytest.raises(TensorFormatError, match=message):
        tensor_to_base64(NDArray.of([1j]))
    with pytest.raises(MetadataError, match=message):
        Constant([1j]).astext()


def test_tensor_bytes_are_independent_of_byte_order() -> None:
    little, big = (tensor_to_base64(NDArray.of(np.array([1, 2], dtype))) for dtype in ("<i4", ">i4"))
    assert little == big
    assert tensor_from_base64(big).tolist() == [1, 2]
