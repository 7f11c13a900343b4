"""Relay passes accept Relay modules only; function passes return typed functions."""

import onnx_ir
import pytest

import apass
import apass.relay.transform
from apass.relay import transform
from apass.relay.errors import TypeInferenceError
from apass.relay.expr import Expr, Let, Tuple
from apass.relay.function import Function
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.op.elementwise.convert import cast
from apass.relay.op.elementwise.math import exp
from apass.relay.op.nn.activation import relu
from apass.relay.op.nn.dense.dense import dense
from apass.relay.op.nn.dropout import dropout
from apass.relay.transform.function_pass import function_pass
from apass.relay.type_inference.infer import infer_module

OPTIONS: dict[str, dict[str, object]] = {
    "AnnotateTarget": {"targets": ["none"]},
    "ConvertLayout": {"desired_layouts": {"nn.conv2d": ["NHWC", "default"]}},
    "MergeComposite": {"pattern_table": []},
    "SimplifyFCTranspose": {"target_weight_name": []},
    "SplitArgs": {"max_function_args": 2},
}
SHARED = {"PrintIR", "Sequential"}
"""Passes over any IR that have a name in `relay.transform`."""
ALL = [
    name
    for name in apass.list_passes()
    if hasattr(apass.relay.transform, name.removeprefix("relay.")) and name not in SHARED
]
NAMES = [name for name in ALL if isinstance(apass.get_pass(name, **OPTIONS.get(name, {})), apass.FunctionPass)]


def program() -> IRModule:
    """Return an untyped program that most passes change."""
    x, weight, bound = var("x", shape=(2, 3)), var("weight", shape=(4, 3)), var("bound")
    value = add(relu(dense(x, weight)), add(const(1.0), const(2.0)))
    fields = [add(exp(bound), exp(bound)), dropout(bound), cast(cast(bound, "int32"), "int32")]
    return IRModule({"main": Function([x, weight], Let(bound, value, Tuple(fields)))})


def test_all_function_passes_are_tested() -> None:
    assert len(NAMES) >= 17


@pytest.mark.parametrize("name", NAMES)
def test_function_pass_returns_typed_function(name: str) -> None:
    result = apass.run(apass.get_pass(name, **OPTIONS.get(name, {})), program())
    assert infer_module(result, trust=False) is result
    assert result["main"].body.checked_type == result["main"].ret_type


@pytest.mark.parametrize("name", ["FoldConstant", "DeadCodeElimination", "ToGraphNormalForm"])
def test_infer_type_at_end_reports_ill_typed_program(name: str) -> None:
    ill_typed = IRModule({"main": Function([], add(const([1.0, 2.0]), const([1.0, 2.0, 3.0])))})
    with pytest.raises(TypeInferenceError, match=r"cannot be broadcast[\s\S]*in pass '\w+ > InferType'"):
        apass.run(apass.get_pass(name), ill_typed)


class Hooks(apass.PassInstrument):
    """Records the passes, in order."""

    def __init__(self, skipped: str = "") -> None:
        self.skipped = skipped
        self.events: list[str] = []

    def should_run(self, mod: IRModule, info: apass.PassInfo) -> bool:
        return info.name != self.skipped

    def run_before_pass(self, mod: IRModule, info: apass.PassInfo) -> None:
        self.events.append(info.name)

    def run_after_pass(self, mod: IRModule, info: apass.PassInfo) -> None:
        self.events.append(f"end of {info.name}")


@pytest.mark.anyio
async def test_function_pass_runs_infer_type_through_hooks() -> None:
    hooks = Hooks()
    passes = apass.Sequential([transform.InferType(), transform.FoldConstant(), transform.DeadCodeElimination()])
    async with apass.PassContext(opt_level=3, instruments=[hooks]):
        await passes(program())
    typing = ["InferType", "end of InferType"]
    fold = ["FoldConstant", *typing, "end of FoldConstant"]
    eliminate = ["DeadCodeElimination", *typing, "end of DeadCodeElimination"]
    assert hooks.events == ["sequential", *typing, *fold, *eliminate, "end of sequential"]


@pytest.mark.anyio
async def test_user_pass_leaves_types_unless_skipped() -> None:
    @transform.function_pass(opt_level=0)
    def wrap(func: Function, mod: IRModule, ctx: apass.PassContext) -> Function:
        return Function(func.params, exp(func.params[0]))

    assert isinstance(wrap, transform.FunctionPass)
    async with apass.PassContext(instruments=[Hooks("InferType")]):
        assert (await wrap(program()))["main"].checked_type_ is None
    assert (await wrap(program()))["main"].ret_type == var("x", shape=(2, 3)).type_annotation


def test_class_of_functions_passes_leaves_types() -> None:
    class Wrap(transform.FunctionPass, opt_level=0):
        def transform_function(self, func: Function, mod: IRModule, ctx: apass.PassContext) -> Function:
            return Function(func.params, exp(func.params[0]))

    result = apass.run(Wrap(), program())
    assert infer_module(result, trust=False) is result


def test_print_ir_writes_module_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    x = var("x", shape=(2,))
    mod = infer_module(IRModule.from_expr(Function([x], add(x, const([1.0, 2.0])))))
    assert apass.run(transform.PrintIR("before"), mod) is mod
    plain = capsys.readouterr().out
    assert apass.run(transform.PrintIR(show_meta_data=True), mod) is mod
    whole = capsys.readouterr().out
    assert plain.startswith("PrintIR(before):\n")
    assert "meta[relay.Constant][0]" in plain
    assert "#[metadata]" not in plain
    assert "#[metadata]" in whole
    with pytest.raises(apass.errors.AdapterError, match=r"requires an apass\.relay\.IRModule"):
        apass.run(transform.PrintIR(), {"f": 1})


def test_transform_has_names_of_tvms_infrastructure() -> None:
    decorators = {"module_pass", "function_pass"}
    classes = {"ModulePass", "FunctionPass", "Sequential", "Pass", "PassContext", "PassInfo", "PrintIR"}
    assert decorators | classes <= set(transform.__all__)


def test_error_of_pass_body_is_raised() -> None:
    def work(func: Function, mod: IRModule, ctx: apass.PassContext) -> Function:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        apass.run(function_pass(work, opt_level=0, name="Refuse"), program())


def test_called_functions_are_used_for_inference() -> None:
    def keep(func: Function, mod: IRModule, ctx: apass.PassContext) -> Function:
        return func

    x = var("x", shape=(2,))
    mod = IRModule({"callee": Function([x], exp(x))})
    called: Expr = mod.get_global_var("callee")(x)
    mod["main"] = Function([x], called)
    result = apass.run(function_pass(keep, opt_level=0, name="Keep"), mod)
    assert result["main"].ret_type == x.type_annotation


OTHER_IRS = [onnx_ir.Model(onnx_ir.Graph([], [], nodes=[]), ir_version=10), {"main": 3}, 5]


@pytest.mark.parametrize("value", OTHER_IRS, ids=["onnx_ir", "dict", "int"])
@pytest.mark.parametrize("name", ALL)
def test_wrong_module_type_error_suggests_conversion(name: str, value: object) -> None:
    pass_ = apass.get_pass(name, **OPTIONS.get(name, {}))
    with pytest.raises(TypeError, match=r"requires an apass.relay.IRModule") as caught:
        apass.run(pass_, value, context=apass.PassContext(opt_level=4))
    kind = type(value)
    message = str(caught.value)
    assert message.startswith("pass '")
    assert f", got {kind.__module__}.{kind.__qualname__};".replace("builtins.", "") in message
    hint = "convert it with relay.FromONNX" if kind is onnx_ir.Model else "apass.relay.frontend.from_onnx(model)"
    assert hint in message
    assert isinstance(caught.value, apass.ApassError)


def test_expression_error_suggests_from_expr() -> None:
    with pytest.raises(TypeError, match=r"got <relay.Var %x>; use IRModule.from_expr\(expr\)"):
        apass.run(apass.get_pass("FoldConstant"), var("x"))
