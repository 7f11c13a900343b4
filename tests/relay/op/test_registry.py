"""Lookup of operators by name, and registration of operators by users."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from apass.errors import PassRegistrationError
from apass.relay import op
from apass.relay.errors import TypeInferenceError, UnknownOpError, UnknownTypeKeyError
from apass.relay.expr import OPS, Call, Expr, Op
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import const, var
from apass.relay.ir.ndarray import Array
from apass.relay.op.layouts.infer import follow
from apass.relay.op.op_attrs import Conv2DAttrs
from apass.relay.ty import FuncType, TensorType, Type
from apass.relay.type_inference.infer import infer_expr


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShiftAttrs(Attrs):
    """The attributes of the operator under test."""

    by: int
    """The distance of the shift."""
    fill: float = 0.0
    """The value of the elements that are shifted in."""


def _relation(types: Sequence[Type], attrs: _ShiftAttrs) -> Sequence[Type | None] | None:
    data = types[0]
    if not isinstance(data, TensorType):
        return None
    if len(data.shape) != 1:
        raise TypeInferenceError(f"example.shift: data must have one dimension, got {data}")
    return [None, data]


def _compute(attrs: _ShiftAttrs, data: Array) -> Array:
    return np.concatenate([np.full(attrs.by, attrs.fill, data.dtype), data])[: len(data)]


@pytest.fixture(name="shift")
def _shift() -> Iterator[Op]:
    yield op.register_op(
        "example.shift",
        arguments=("data",),
        attrs_type=_ShiftAttrs,
        relation=_relation,
        compute=_compute,
        pattern=op.OpPattern.INJECTIVE,
        description="The elements, shifted.",
    )
    del OPS["example.shift"]


def _shifted(data: Expr, **attrs: object) -> Call:
    shift = Op.get("example.shift")
    return Call(shift, [data], shift.make_attrs(**attrs))


def test_user_operator_has_types_values_and_attributes(shift: Op) -> None:
    x = var("x", shape=(3,))
    typed = infer_expr(Function([x], op.add(_shifted(x, by=1), x)))
    assert typed.checked_type == FuncType([TensorType((3,))], TensorType((3,)))
    result = evaluate(_shifted(const([1.0, 2.0, 3.0]), by=1, fill=9.0))
    np.testing.assert_array_equal(np.asarray(result), [9, 1, 2])
    assert op.get("example.shift") is shift
    assert (shift.get_attr("TOpPattern"), shift.get_attr("TOpIsStateful")) == (op.OpPattern.INJECTIVE, False)
    assert shift.get_attr("FTVMCompute") is None


def test_relation_errors_reach_type_inference(shift: Op) -> None:
    with pytest.raises(TypeInferenceError, match="data must have one dimension"):
        infer_expr(_shifted(var("x", shape=(2, 2)), by=1))
    with pytest.raises(TypeError, match="by"):
        shift.make_attrs(fill=0.0)


def test_operator_attribute_is_set_and_read(shift: Op) -> None:
    op.register_op_attr("example.shift", "example.cost", 7)
    assert shift.get_attr("example.cost") == 7
    with pytest.raises(UnknownOpError, match=r"there is no operator named 'nn.conv2'; did you mean 'nn.conv2d'"):
        op.register_op_attr("nn.conv2", "example.cost", 7)


def test_operator_name_is_registered_once() -> None:
    with pytest.raises(PassRegistrationError, match="operator 'add' is already registered"):
        op.register_op("add", arguments=(), relation=_relation, compute=_compute)


def test_unknown_operator_error_suggests_a_name() -> None:
    with pytest.raises(UnknownOpError, match="there is no operator named 'concatenat'; did you mean 'concatenate'"):
        op.get("concatenat")


def test_operator_attribute_is_set_by_decorator_and_reset() -> None:
    @op.register_op_attr("add", "FTest")
    def rule() -> int:
        return 1

    assert op.get("add").get_attr("FTest") is rule
    op.get("add").reset_attr("FTest")
    assert op.get("add").get_attr("FTest", "nothing") == "nothing"
    op.get("add").reset_attr("FTest")


def test_attribute_of_higher_level_is_kept() -> None:
    add = op.get("add")
    op.register_op_attr("add", "FTest", "strong", level=11)
    op.register_op_attr("add", "FTest", "weak")
    assert add.get_attr("FTest") == "strong"
    add.set_attr("FTest", "stronger", 12)
    assert add.get_attr("FTest") == "stronger"
    add.reset_attr("FTest")


def test_register_pattern_sets_the_fusion_pattern(shift: Op) -> None:
    op.register_pattern("example.shift", 8)
    assert shift.get_attr("TOpPattern") is op.OpPattern.OPAQUE
    with pytest.raises(ValueError, match="5 is not a valid OpPattern"):
        op.register_pattern("example.shift", 5)
    shift.reset_attr("TOpPattern")


@pytest.fixture(name="bare")
def _bare() -> Iterator[Op]:
    op.register("example.bare", "An operator without a definition.")
    yield op.get("example.bare")
    del OPS["example.bare"]


def test_operator_registered_by_name_is_completed_later(bare: Op) -> None:
    assert (bare.description, bare.num_inputs, bare.relation) == ("An operator without a definition.", -1, None)
    bare.set_num_inputs(2)
    bare.add_argument("lhs", "Tensor", "The left one.")
    bare.add_argument("rhs", "Tensor", "The right one.")
    bare.set_support_level(3)
    bare.set_attrs_type_key("DictAttrs")
    bare.add_type_rel("Broadcast")
    x, y = var("x", shape=(2, 1)), var("y", shape=(3,))
    assert infer_expr(Call(bare, [x, y], bare.make_attrs())).checked_type == TensorType((2, 3))
    assert (bare.arguments, bare.support_level) == (("lhs", "rhs"), 3)
    with pytest.raises(PassRegistrationError, match=r"operator 'example.bare' is already registered"):
        op.register("example.bare")


def test_python_rule_computes_the_result_type(bare: Op) -> None:
    def rule(types: list[Type], attrs: Attrs | None) -> Type:
        (data,) = types
        assert isinstance(data, TensorType)
        return TensorType(data.shape[::-1], data.dtype)

    bare.set_num_inputs(1)
    bare.add_type_rel("Reversed", rule)
    assert infer_expr(Call(bare, [Call(bare, [var("x", shape=(2, 3))])])).checked_type == TensorType((2, 3))
    assert infer_expr(Call(bare, [var("x", shape=(2, 3))])).checked_type == TensorType((3, 2))


def test_unknown_relation_or_attribute_type_is_rejected(bare: Op) -> None:
    with pytest.raises(ValueError, match=r"unknown type relation 'Broadcst'; did you mean 'Broadcast'"):
        bare.add_type_rel("Broadcst")
    with pytest.raises(UnknownTypeKeyError, match=r"unknown attributes class 'relay.attrs.Conv2DAttr'; did you mean"):
        bare.set_attrs_type_key("relay.attrs.Conv2DAttr")


def test_type_key_sets_class_of_attributes(bare: Op) -> None:
    bare.set_attrs_type_key("relay.attrs.Conv2DAttrs")
    attrs = bare.make_attrs(channels=3)
    assert isinstance(attrs, Conv2DAttrs)
    assert attrs.channels == 3


def test_register_stateful_sets_attribute(bare: Op) -> None:
    assert op.register_stateful("example.bare", True) is True
    assert bare.get_attr("TOpIsStateful") is True
    op.register_stateful("example.bare", False, level=5)
    assert bare.get_attr("TOpIsStateful") is True
    bare.reset_attr("TOpIsStateful")


def test_has_attr_returns_whether_it_was_set() -> None:
    assert Op.get("add").has_attr("TOpPattern")
    assert not Op.get("add").has_attr("TOpPatern")


def test_operator_names_are_listed_in_order() -> None:
    names = Op.list_op_names()
    assert "nn.conv2d" in names
    assert names == sorted(names)


def test_register_gradient_sets_the_primal_gradient(shift: Op) -> None:
    @op.register_gradient("example.shift")
    def gradient(orig: Call, grad: Expr) -> list[Expr]:
        return [grad]

    assert shift.get_attr("FPrimalGradient") is gradient
    assert op.op.register_gradient("example.shift", gradient, level=9) is gradient
    shift.reset_attr("FPrimalGradient")


def test_register_infer_correct_layout_sets_layout_rule(shift: Op) -> None:
    rule = op.register_infer_correct_layout("example.shift", follow(lambda attrs, change, shape: attrs))
    assert shift.get_attr("FInferCorrectLayout") is rule
    shift.reset_attr("FInferCorrectLayout")
