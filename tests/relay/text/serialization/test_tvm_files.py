"""Texts that TVM wrote are read, and the same texts are written."""

import json

import numpy as np
import pytest

from apass.core.diagnostics import Span
from apass.relay.adt import Clause, Match, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from apass.relay.expr import Call, Constant, Expr, GlobalVar, Op, Var
from apass.relay.function import Function
from apass.relay.ir.attrs import Attrs, DictAttrs
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.op import functions, nn
from apass.relay.op.op_attrs import ArangeAttrs, Conv2DAttrs, DynReshapeAttrs, ReshapeAttrs, TopkAttrs
from apass.relay.structural.equality import assert_structural_equal
from apass.relay.text.serialization.load import load_json
from apass.relay.text.serialization.save import save_json
from apass.relay.ty import Any, FuncType, SizeVar, TensorType, TupleType, TypeRelation, TypeVar
from tests.relay.text.serialization.documents import array, document, leaf, node, number, string

VAR = """{
  "root": 1,
  "nodes": [
    {
      "type_key": ""
    },
    {
      "type_key": "relay.Var",
      "attrs": {
        "_checked_type_": "0",
        "span": "0",
        "type_annotation": "4",
        "vid": "2"
      }
    },
    {
      "type_key": "relay.Id",
      "attrs": {"name_hint": "3"}
    },
    {
      "type_key": "runtime.String",
      "repr_str": "x"
    },
    {
      "type_key": "relay.TensorType",
      "attrs": {
        "dtype": "float32",
        "shape": "5",
        "span": "0"
      }
    },
    {
      "type_key": "Array",
      "data": [6]
    },
    {
      "type_key": "IntImm",
      "attrs": {
        "dtype": "int32",
        "span": "0",
        "value": "10"
      }
    }
  ],
  "b64ndarrays": [],
  "attrs": {"tvm_version": "0.8.0"}
}""".replace(",\n", ", \n")
ONE = "P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAAAAAAIgAQAEAAAAAAAAAAAAgD8="
"""The scalar 1 of type float32."""


def load(text: str) -> Expr:
    """Return the expression in a text."""
    expr = load_json(text)
    assert isinstance(expr, Expr)
    return expr


def load_attrs(text: str) -> Attrs:
    """Return the attributes in a text."""
    attrs = load_json(text)
    assert isinstance(attrs, Attrs)
    return attrs


def saved(value: object) -> dict[str, str]:
    """Return the fields of the root of the text of a value."""
    parts = json.loads(save_json(value))
    fields: dict[str, str] = parts["nodes"][parts["root"]]["attrs"]
    return fields


def test_variable_has_text_of_tvm() -> None:
    assert save_json(var("x", shape=(10,))) == VAR
    x = load(VAR)
    assert isinstance(x, Var)
    assert (x.name_hint, x.type_annotation, x.span) == ("x", TensorType((10,)), None)


def test_typed_function_written_by_tvm_is_read() -> None:
    expr = {"span": 0, "_checked_type_": 3}
    text = document(
        node("relay.Function", params=2, body=7, ret_type=3, type_params=12, attrs=13, span=0, _checked_type_=16),
        array(4),
        node("relay.TensorType", shape=12, dtype="float32", span=0),
        node("relay.Var", vid=5, type_annotation=3, **expr),
        node("relay.Id", name_hint=6),
        string("x"),
        node("relay.Call", op=8, args=9, attrs=0, type_args=11, **expr),
        leaf("Op", "add"),
        array(4, 10),
        node("relay.Constant", data=0, **expr),
        array(3, 3),
        array(),
        node("DictAttrs", __dict__=14),
        {"type_key": "Map", "keys": ["Primitive"], "data": [15]},
        number(1),
        node("FuncType", arg_types=17, ret_type=3, type_params=12, type_constraints=12, span=0),
        array(3),
        tensors=[ONE],
    )
    func = load(text)
    x = var("x", "float32")
    assert_structural_equal(func, Function([x], x + const(1.0), x.checked_type, attrs={"Primitive": 1}))
    assert isinstance(func, Function)
    assert func.checked_type == FuncType([TensorType()], TensorType())
    assert isinstance(func.body, Call)
    assert (func.body.checked_type, func.body.type_args) == (TensorType(), (TensorType(), TensorType()))


CONV = {
    "strides": 2, "padding": 4, "dilation": 2, "groups": "1", "channels": 7, "kernel_size": 8,
    "data_layout": 10, "kernel_layout": 11, "out_layout": 12, "auto_scheduler_rewritten_layout": 12, "out_dtype": "",
}  # fmt: skip
CONV_NODES = (
    array(3, 3), number(1), array(5, 5, 5, 5), number(0), string("unused"), number(16), array(9, 9), number(3),
    string("NCHW"), string("OIHW"), {"type_key": "runtime.String"},
)  # fmt: skip


def test_attributes_of_conv2d_are_those_of_tvm() -> None:
    attrs = load_json(document(node("relay.attrs.Conv2DAttrs", **CONV), *CONV_NODES))
    call = nn.conv2d(var("x"), var("w"), channels=16, kernel_size=(3, 3))
    assert isinstance(call, Call)
    assert isinstance(call.attrs, Conv2DAttrs)
    assert attrs == Conv2DAttrs(channels=16, kernel_size=(3, 3), padding=(0, 0, 0, 0))
    fields = saved(attrs)
    assert sorted(fields) == sorted(CONV)
    assert (fields["groups"], fields["out_dtype"]) == ("1", "")


def test_strings_may_be_nodes_or_text() -> None:
    fields = {**CONV, "data_layout": "NHWC", "kernel_layout": "HWIO"}
    attrs = load_attrs(document(node("relay.attrs.Conv2DAttrs", **fields), *CONV_NODES))
    assert (attrs["data_layout"], attrs["kernel_layout"], attrs["out_layout"]) == ("NHWC", "HWIO", "")
    softmax = load_attrs(
        document(node("relay.attrs.LayoutTransformAttrs", src_layout=2, dst_layout="NHWC"), string("NCHW"))
    )
    assert (softmax["src_layout"], softmax["dst_layout"]) == ("NCHW", "NHWC")


@pytest.mark.parametrize(
    ("attrs", "fields"),
    [
        (Op.get("take").make_attrs(axis=1), {"axis": "@IntImm", "batch_dims": "@IntImm", "mode": "@runtime.String"}),
        (Op.get("nn.batch_norm").make_attrs(), {"axis": "1", "epsilon": "1e-05", "center": "1", "scale": "1"}),
        (Op.get("squeeze").make_attrs(), {"axis": "0"}),
        (Op.get("squeeze").make_attrs(axis=(0,)), {"axis": "@Array"}),
        (Op.get("cast").make_attrs(dtype="bool"), {"dtype": "bool"}),
        (Op.get("clip").make_attrs(a_min=0, a_max=6.5), {"a_min": "0.0", "a_max": "6.5"}),
        (Op.get("cumsum").make_attrs(exclusive=True), {"axis": "0", "dtype": "", "exclusive": "@IntImm"}),
        (Op.get("split").make_attrs(indices_or_sections=2), {"indices_or_sections": "@IntImm", "axis": "0"}),
    ],
)
def test_fields_have_the_forms_of_tvm(attrs: Attrs, fields: dict[str, str]) -> None:
    """Compare the fields; `@` precedes the type key of a node."""
    nodes = json.loads(save_json(attrs))["nodes"]
    written = {
        name: f"@{nodes[int(text)]['type_key']}" if fields[name].startswith("@") else text
        for name, text in saved(attrs).items()
    }
    assert written == fields


def test_one_class_of_tvm_is_two_classes() -> None:
    x, shape = var("x", shape=(2, 3)), var("s", shape=(2,), dtype="int64")
    for call, kind in ((functions.reshape(x, (6,)), ReshapeAttrs), (functions.reshape(x, shape), DynReshapeAttrs)):
        text = save_json(call)
        assert '"relay.attrs.ReshapeAttrs"' in text
        again = load_json(text)
        assert isinstance(again, Call)
        assert type(again.attrs) is kind
    assert saved(functions.reshape(x, shape).attrs)["newshape"] == "0"


def test_dynamic_operators_ignore_static_attributes() -> None:
    tile = document(
        node("relay.Call", op=2, args=3, attrs=4, type_args=3, span=0, _checked_type_=0),
        leaf("Op", "dyn.tile"),
        array(),
        node("relay.attrs.TileAttrs", reps=0),
    )
    call = load_json(tile)
    assert isinstance(call, Call)
    assert call.attrs is None
    topk = document(node("relay.attrs.TopkAttrs", k=0, axis=1, ret_type="both", is_ascend=0, dtype="int32"))
    assert load_json(topk) == TopkAttrs(k=1, axis=1, ret_type="both", is_ascend=False, dtype="int32")


@pytest.mark.parametrize("start", [0, 0.0, 0.1, 2**40, float("inf"), None])
def test_arange_holds_constants(start: float | None) -> None:
    attrs = ArangeAttrs(start=start, stop=3.5, step=1, dtype="float32")
    again = load_json(save_json(attrs))
    assert again == attrs
    assert isinstance(again, ArangeAttrs)
    assert type(again.start) is type(start)
    assert (saved(attrs)["start"] == "0") == (start is None)


def test_arange_ignores_computed_numbers() -> None:
    text = document(
        node("relay.attrs.ArangeAttrs", start=2, stop=2, step=2, dtype="int64"),
        node("GlobalVar", name_hint=3, span=0, _checked_type_=0),
        string("f"),
    )
    assert load_json(text) == ArangeAttrs(dtype="int64")


def test_module_written_by_tvm_is_read() -> None:
    text = document(
        node(
            "IRModule",
            functions=2,
            type_definitions=6,
            global_var_map_=7,
            global_type_var_map_=6,
            source_map=10,
            attrs=15,
        ),
        {"type_key": "Map", "data": [3, 5]},
        node("GlobalVar", name_hint=4, span=0, _checked_type_=0),
        string("main"),
        node("relay.Function", params=8, body=9, ret_type=0, type_params=8, attrs=0, span=0, _checked_type_=0),
        {"type_key": "Map"},
        {"type_key": "Map", "keys": ["main"], "data": [3]},
        array(),
        node("relay.Tuple", fields=8, span=14, _checked_type_=0),
        node("SourceMap", source_map=11),
        {"type_key": "Map", "data": [12, 13]},
        leaf("SourceName", "a.relay"),
        node("Source", source_name=12, source=4, span=0),
        node("Span", source_name=12, line=1, column=2, end_line=3, end_column=4),
        node("DictAttrs", __dict__=16),
        {"type_key": "Map", "keys": ["runtime"], "data": [4]},
    )
    mod = load_json(text)
    assert isinstance(mod, IRModule)
    assert mod["main"].body.span == Span("a.relay", line=1, column=2, end_line=3, end_column=4)
    assert mod.source_map == {"a.relay": "main"}
    assert mod.get_attr("runtime") == "main"
    again = load_json(save_json(mod))
    assert isinstance(again, IRModule)
    assert (again.source_map, again.attrs) == (mod.source_map, mod.attrs)
    assert set(saved(mod)) == {
        "attrs", "functions", "global_type_var_map_", "global_var_map_", "source_map", "type_definitions",
    }  # fmt: skip


def test_match_written_by_tvm_is_read() -> None:
    match = {"span": 0, "_checked_type_": 0}
    text = document(
        node("relay.Match", data=2, clauses=4, complete=1, **match),
        node("relay.Var", vid=3, type_annotation=0, **match),
        node("relay.Id", name_hint=16),
        array(5, 17),
        node("relay.Clause", lhs=6, rhs=2),
        node("relay.PatternConstructor", constructor=7, patterns=12, span=0),
        node("relay.Constructor", name_hint=8, inputs=9, belong_to=10, tag=77, **match),
        string("Box"),
        array(),
        node("GlobalTypeVar", name_hint=11, kind=5),
        string("Boxed"),
        array(13, 14),
        node("relay.PatternWildcard", span=0),
        node("relay.PatternTuple", patterns=15, span=0),
        array(18),
        string("y"),
        node("relay.Clause", lhs=18, rhs=2),
        node("relay.PatternVar", var=2, span=0),
    )
    expr = load_json(text)
    assert isinstance(expr, Match)
    first, second = expr.clauses
    assert isinstance(first, Clause)
    assert isinstance(first.lhs, PatternConstructor)
    assert (first.lhs.constructor.tag, first.lhs.constructor.belong_to.name_hint) == (77, "Boxed")
    wildcard, fields = first.lhs.patterns
    assert isinstance(wildcard, PatternWildcard)
    assert isinstance(fields, PatternTuple)
    assert fields.patterns == (second.lhs,)
    assert isinstance(second.lhs, PatternVar)
    assert second.lhs.var is expr.data


def test_symbolic_dimensions_written_by_tvm_are_read() -> None:
    text = document(
        node("relay.TensorType", shape=2, dtype="float16", span=0),
        array(3, 4, 3, 6),
        node("tir.SizeVar", dtype="int64", name=5, type_annotation=7, span=0),
        node("tir.Any", dtype="int32", span=0),
        string("n"),
        node("IntImm", dtype="int64", value=5, span=0),
        node("PrimType", dtype="int64"),
    )
    ty = load_json(text)
    assert isinstance(ty, TensorType)
    n, unknown, again, five = ty.shape
    assert isinstance(n, SizeVar)
    assert (n.name, n.dtype, unknown, five, ty.dtype) == ("n", "int64", Any(), 5, "float16")
    assert n is again


def test_type_relation_names_function_of_tvm() -> None:
    a = TypeVar("a")
    relation = TypeRelation("Broadcast", [a, a, a], 2, DictAttrs({"axis": 1}))
    ty = FuncType([a, a], a, [a], [relation])
    text = save_json(ty)
    assert '"repr_str": "tvm.relay.type_relation.Broadcast"' in text
    assert load_json(text) == ty


def test_inferred_type_is_annotation_of_variable() -> None:
    text = document(
        node("relay.Var", vid=2, type_annotation=0, span=0, _checked_type_=4),
        node("relay.Id", name_hint=3),
        string("x"),
        node("TupleType", fields=5, span=0),
        array(),
    )
    x = load(text)
    assert isinstance(x, Var)
    assert x.type_annotation == TupleType([])


def test_attributes_may_have_names_of_fields() -> None:
    attrs = DictAttrs({"type_params": 5, "span": "s", "attrs": None, "data": (1,)})
    assert load_json(save_json(attrs)) == attrs


def test_text_outside_of_ascii_is_encoded() -> None:
    text = save_json(GlobalVar("größe\n"))
    assert '"repr_b64": "CAAAAAAAAABncsO2w59lCg=="' in text
    gvar = load_json(text)
    assert isinstance(gvar, GlobalVar)
    assert gvar.name_hint == "größe\n"


def test_long_arrays_have_an_item_per_line() -> None:
    assert '"data": [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]' in save_json(tuple(range(10)))
    assert '"data": [\n        2, \n        3, \n' in save_json(tuple(range(11)))


def test_files_of_tvm_0_6_are_upgraded() -> None:
    text = document(
        node("relay.Module", functions=2, type_definitions=9, global_var_map_=9, global_type_var_map_=9),
        {"type_key": "Map", "data": [3, 4]},
        node("relay.GlobalVar", name_hint="main", span=0, _checked_type_=0),
        node("relay.Function", params=5, body=6, ret_type=0, type_params=10, attrs=0, span=0, _checked_type_=0),
        array(6),
        node("relay.Var", vid=7, type_annotation=8, span=0, _checked_type_=0),
        node("relay.Id", name_hint="x"),
        node("relay.TupleType", fields=10, span=0),
        {"type_key": "StrMap"},
        array(11),
        node("relay.TypeVar", var=12, kind=0, span=0),
        node("Variable", dtype="int32", name="t"),
        version="0.6.0",
    )
    mod = load_json(text)
    assert isinstance(mod, IRModule)
    (t,) = mod["main"].type_params
    assert str(mod["main"]) == "fn [t](%x: (t,)) {\n  %x\n}"
    assert t.name_hint == "t"
    call = load_json(
        document(
            node("relay.Call", op=2, args=3, attrs=0, type_args=3, span=4, _checked_type_=0),
            {"type_key": "relay.Op", "global_key": "add"},
            array(),
            {"type_key": ""},
            {"type_key": "relay.SourceName", "global_key": "a"},
            version="0.7.dev1",
        )
    )
    assert isinstance(call, Call)
    assert call.op is Op.get("add")
    assert load_json(document(node("StringImm", dtype="handle", value="text"), version="0.6.0")) == "text"


def test_files_before_tvm_0_6_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"^cannot read JSON of TVM 0.5.0; expected 0.6 or later$"):
        load_json(document(version="0.5.0"))


def test_constant_keeps_its_bits() -> None:
    array_ = np.array([[1, -2], [3, 4]], "int8")
    again = load_json(save_json(Constant(array_)))
    assert isinstance(again, Constant)
    np.testing.assert_array_equal(again.data, array_)
    assert again.data.dtype == np.int8
