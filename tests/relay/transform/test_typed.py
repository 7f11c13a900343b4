"""Passes of Relay take Relay alone, and what a function pass leaves has types, as in TVM, where it can have any."""

import onnx_ir
import pytest

import apass
import apass.relay.transform
from apass.relay.expr import Expr, Let, Tuple
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.make import const, var
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.op.elementwise.convert import cast
from apass.relay.op.elementwise.math import exp
from apass.relay.op.nn.activation import relu
from apass.relay.op.nn.dense.dense import dense
from apass.relay.op.nn.dropout import dropout
from apass.relay.transform.support.decorators import function_pass
from apass.relay.type_inference.infer import infer_module

OPTIONS: dict[str, dict[str, object]] = {
    "ConvertLayout": {"desired_layouts": {"nn.conv2d": ["NHWC", "default"]}},
    "MergeComposite": {"pattern_table": []},
    "SplitArgs": {"max_function_args": 2},
}
ALL = [name for name in apass.list_passes() if hasattr(apass.relay.transform, name.removeprefix("relay."))]
NAMES = [name for name in ALL if isinstance(apass.get_pass(name, **OPTIONS.get(name, {})), apass.FunctionPass)]


def program() -> IRModule:
    """Return a program without types that most passes find something to do in."""
    x, weight, bound = var("x", shape=(2, 3)), var("weight", shape=(4, 3)), var("bound")
    value = add(relu(dense(x, weight)), add(const(1.0), const(2.0)))
    fields = [add(exp(bound), exp(bound)), dropout(bound), cast(cast(bound, "int32"), "int32")]
    return IRModule({"main": Function([x, weight], Let(bound, value, Tuple(fields)))})


def test_all_function_passes_are_tried() -> None:
    assert len(NAMES) >= 17


@pytest.mark.parametrize("name", NAMES)
def test_what_a_function_pass_leaves_has_types(name: str) -> None:
    made = apass.run(apass.get_pass(name, **OPTIONS.get(name, {})), program())
    assert infer_module(made, trust=False) is made
    assert made["main"].body.checked_type == made["main"].ret_type


@pytest.mark.parametrize("name", ["FoldConstant", "DeadCodeElimination", "ToGraphNormalForm"])
def test_a_program_that_has_no_types_stays_as_it_is(name: str) -> None:
    ill_typed = IRModule({"main": Function([], add(const([1.0, 2.0]), const([1.0, 2.0, 3.0])))})
    assert apass.run(apass.get_pass(name), ill_typed) is ill_typed


def test_a_body_that_raises_is_not_kept_from_it() -> None:
    def work(func: Function, mod: IRModule, ctx: apass.PassContext) -> Function:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        apass.run(function_pass(work, opt_level=0, name="Refuse"), program())


def test_types_are_found_with_the_functions_that_are_called() -> None:
    def keep(func: Function, mod: IRModule, ctx: apass.PassContext) -> Function:
        return func

    x = var("x", shape=(2,))
    mod = IRModule({"callee": Function([x], exp(x))})
    called: Expr = mod.get_global_var("callee")(x)
    mod["main"] = Function([x], called)
    made = apass.run(function_pass(keep, opt_level=0, name="Keep"), mod)
    assert made["main"].ret_type == x.type_annotation


OTHER_IRS = [onnx_ir.Model(onnx_ir.Graph([], [], nodes=[]), ir_version=10), {"main": 3}, 5]


@pytest.mark.parametrize("given", OTHER_IRS, ids=["onnx_ir", "dict", "int"])
@pytest.mark.parametrize("name", ALL)
def test_a_module_of_another_ir_is_an_error_that_says_what_to_do(name: str, given: object) -> None:
    pass_ = apass.get_pass(name, **OPTIONS.get(name, {}))
    with pytest.raises(TypeError, match=r"works on an apass.relay.IRModule") as caught:
        apass.run(pass_, given, context=apass.PassContext(opt_level=4))
    kind = type(given)
    message = str(caught.value)
    assert message.startswith("pass '")
    assert f"not on {kind.__module__}.{kind.__qualname__};".replace("builtins.", "") in message
    assert "apass.relay.frontend.from_onnx(model)" in message
    assert "apass opt --to relay" in message
    assert isinstance(caught.value, apass.ApassError)


def test_an_expression_in_the_place_of_a_module_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(TypeError, match=r"not on <relay.Var %x>; give IRModule.from_expr\(expr\)"):
        apass.run(apass.get_pass("FoldConstant"), var("x"))
