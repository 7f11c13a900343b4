"""InferType as a pass, and InferTypeLocal."""

import pytest

import apass
from apass.relay.errors import TypeInferenceError
from apass.relay.expr import GlobalVar
from apass.relay.ir.expr import var
from apass.relay.op.elementwise.arithmetic import add, multiply
from apass.relay.text.parsing.reader import read_module
from apass.relay.transform.infer_type import InferType, InferTypeLocal
from apass.relay.type_inference.infer import infer_expr

SOURCE = """
def @f(%x: Tensor[(2), float32]) { nn.relu(%x) }
def @main(%x: Tensor[(2), float32]) { let %y = @f(%x); (%y, add(%y, %y)) }
"""


def test_infer_type_is_registered_as_in_tvm() -> None:
    assert apass.get_pass("InferType").info == apass.PassInfo(opt_level=0, name="InferType")


def test_infer_type_annotates_module() -> None:
    assert str(apass.run(InferType(), read_module(SOURCE))) == (
        "def @f(%x: Tensor[(2), float32]) -> Tensor[(2), float32] {\n"
        "  nn.relu(%x) /* ty=Tensor[(2), float32] */\n"
        "}\n"
        "\n"
        "def @main(%x1: Tensor[(2), float32]) -> (Tensor[(2), float32], Tensor[(2), float32]) {\n"
        "  let %y: Tensor[(2), float32] = @f(%x1) /* ty=Tensor[(2), float32] */;\n"
        "  %0 = add(%y, %y) /* ty=Tensor[(2), float32] */;\n"
        "  (%y, %0)\n"
        "}\n"
    )


def test_second_inference_returns_same_module() -> None:
    once = apass.run(InferType(), read_module(SOURCE))
    assert apass.run(InferType(), once) is once


def test_function_with_skip_optimization_is_typed() -> None:
    mod = read_module(SOURCE)
    mod["f"] = mod["f"].with_attr("SkipOptimization", 1)
    assert apass.run(InferType(), mod)["f"].checked_type_ is not None


def test_ill_typed_program_reports_all_errors() -> None:
    source = "def @main(%x: int32) { add(%x, 1f) }\ndef @f(%x: int32) { %x.0 }"
    with pytest.raises(TypeInferenceError) as caught:
        apass.run(InferType(), read_module(source))
    assert str(caught.value).count("error:") == 2


def test_infer_type_local_uses_types_of_operands() -> None:
    x = var("x", shape=(2, 3))
    inner = infer_expr(add(x, x))
    outer = multiply(inner, x)
    assert InferTypeLocal(outer) == x.checked_type
    assert outer.checked_type_ is None


def test_infer_type_local_rejects_global_variable() -> None:
    with pytest.raises(TypeInferenceError, match="the module has no function @f"):
        InferTypeLocal(GlobalVar("f"))
