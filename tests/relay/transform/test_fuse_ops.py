"""FuseOps and DefuseOps: which groups are fused, and that fusion is undone."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import apass
from apass.relay.expr import Call, Expr, GlobalVar, Let, Op, Var
from apass.relay.function import Function
from apass.relay.interpreter.compare_outputs import difference
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.op.nn.activation import relu
from apass.relay.parser import parse
from apass.relay.structural.equality import assert_structural_equal, structural_equal
from apass.relay.testing.programs import Program, programs
from apass.relay.transform.fuse_ops.defuse import DefuseOps, defuse_ops
from apass.relay.transform.fuse_ops.fuse_ops import FuseOps, fuse_ops
from apass.relay.type_inference.infer import infer_function, infer_module
from tests.helpers.amounts import amount, levels

HEADER = '#[version = "0.0.5"]\n'


def read(text: str) -> IRModule:
    """Return the typed module of a text."""
    return parse(HEADER + text)


def fused(mod: IRModule, level: int = 2, config: Mapping[str, object] | None = None) -> IRModule:
    """Return the result of FuseOps on a module, in a context."""

    async def main() -> IRModule:
        async with apass.PassContext(opt_level=level, config=config):
            return await FuseOps()(mod)

    return infer_module(apass.run(apass.module_pass(lambda _, ctx: main(), opt_level=0, name="InContext"), mod))


def assert_fuses(before: str, after: str, level: int = 2, config: Mapping[str, object] | None = None) -> None:
    """Assert that FuseOps turns one text into another, and that DefuseOps undoes it."""
    mod = read(before)
    result = fused(mod, level, config)
    assert_structural_equal(result, read(after))
    assert_structural_equal(infer_module(apass.run(DefuseOps(), result)), mod)


def groups(mod: IRModule) -> list[list[str]]:
    """Return the operators of each primitive function, in the order of the calls."""
    calls = [node for node in post_order(mod["main"].body) if isinstance(node, Call)]
    functions = [call.op for call in calls if isinstance(call.op, Function) and call.op.attrs.get("Primitive")]
    return [
        [node.op.name for node in post_order(func.body) if isinstance(node, Call) and isinstance(node.op, Op)]
        for func in functions
    ]


def test_elementwise_operators_are_fused() -> None:
    assert_fuses(
        """
        def @main(%x: Tensor[(10, 20), float32]) {
          squeeze(exp(add(%x, 1f)))
        }
        """,
        """
        def @main(%x: Tensor[(10, 20), float32]) -> Tensor[(10, 20), float32] {
          %0 = fn (%p0: Tensor[(10, 20), float32], Primitive=1) -> Tensor[(10, 20), float32] {
            squeeze(exp(add(%p0, 1f)))
          };
          %0(%x)
        }
        """,
    )


def test_complex_operator_absorbs_operators_until_next() -> None:
    assert_fuses(
        """
        def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 1, 1), float32]) {
          %0 = nn.conv2d(%x, %w, channels=4, kernel_size=[1, 1]);
          %1 = nn.relu(add(%0, 1f));
          nn.conv2d(%1, %w, channels=4, kernel_size=[1, 1])
        }
        """,
        """
        def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 1, 1), float32])
            -> Tensor[(1, 4, 8, 8), float32] {
          %0 = fn (%p0: Tensor[(1, 4, 8, 8), float32], %p1: Tensor[(4, 4, 1, 1), float32], Primitive=1)
              -> Tensor[(1, 4, 8, 8), float32] {
            nn.relu(add(nn.conv2d(%p0, %p1, channels=4, kernel_size=[1, 1]), 1f))
          };
          %1 = %0(%x, %w);
          %2 = fn (%p01: Tensor[(1, 4, 8, 8), float32], %p11: Tensor[(4, 4, 1, 1), float32], Primitive=1)
              -> Tensor[(1, 4, 8, 8), float32] {
            nn.conv2d(%p01, %p11, channels=4, kernel_size=[1, 1])
          };
          %2(%1, %w)
        }
        """,
    )


def test_branches_that_meet_are_fused() -> None:
    mod = read(
        """
        def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 1, 1), float32]) {
          %0 = nn.conv2d(%x, %w, channels=4, kernel_size=[1, 1]);
          add(nn.relu(%0), multiply(%0, 2f))
        }
        """
    )
    assert groups(fused(mod)) == [["nn.conv2d", "nn.relu", "multiply", "add"]]


def test_branches_that_meet_in_complex_operator_stay_apart() -> None:
    mod = read(
        """
        def @main(%x: Tensor[(4, 4), float32]) {
          %0 = exp(%x);
          nn.dense(nn.relu(%0), tanh(%0), units=4)
        }
        """
    )
    assert groups(fused(mod)) == [["exp"], ["nn.relu"], ["tanh"], ["nn.dense"]]


def test_result_used_twice_is_computed_once() -> None:
    mod = read("def @main(%x: Tensor[(4), float32]) { %0 = exp(%x); (%0, tanh(%0)) }")
    assert groups(fused(mod)) == [["exp"], ["tanh"]]


def test_reduction_absorbs_only_preceding_operators() -> None:
    mod = read("def @main(%x: Tensor[(4, 5), float32]) { tanh(sum(exp(%x), axis=[1])) }")
    assert groups(fused(mod)) == [["exp", "sum"], ["tanh"]]


def test_broadcast_joins_complex_operator_when_shape_stays() -> None:
    text = """
        def @main(%x: Tensor[{shape}, float32], %w: Tensor[(3, 4), float32], %b: Tensor[(3, 1, 1), float32]) {{
          add(nn.dense(%x, %w, units=3), %b)
        }}
        """
    assert groups(fused(read(text.format(shape="(2, 4)").replace("(3, 1, 1)", "(3)")))) == [["nn.dense", "add"]]
    assert groups(fused(read(text.format(shape="(2, 4)")))) == [["nn.dense"], ["add"]]


def test_injective_operators_join_after_complex_ones() -> None:
    mod = read(
        """
        def @main(%x: Tensor[(2, 4), float32], %w: Tensor[(3, 4), float32]) {
          transpose(reshape(nn.relu(nn.dense(%x, %w, units=3)), newshape=[3, 2]), axes=[1, 0])
        }
        """
    )
    assert groups(fused(mod)) == [["nn.dense", "nn.relu"], ["reshape", "transpose"]]


def test_operators_join_user_of_their_tuple() -> None:
    assert_fuses(
        """
        def @main(%x: Tensor[(2, 4), float32]) {
          %0 = nn.max_pool1d(reshape(%x, newshape=[1, 2, 4]), pool_size=[2]);
          %1 = (exp(%0), tanh(%0), %0);
          concatenate(%1, axis=1)
        }
        """,
        """
        def @main(%x: Tensor[(2, 4), float32]) {
          %0 = fn (%p0: Tensor[(2, 4), float32], Primitive=1, relay.reshape_only=1) -> Tensor[(1, 2, 4), float32] {
            reshape(%p0, newshape=[1, 2, 4])
          };
          %1 = fn (%p01: Tensor[(1, 2, 4), float32], Primitive=1) -> Tensor[(1, 2, 3), float32] {
            nn.max_pool1d(%p01, pool_size=[2])
          };
          %2 = %1(%0(%x));
          %3 = fn (%p02: Tensor[(1, 2, 3), float32], Primitive=1) -> Tensor[(1, 6, 3), float32] {
            concatenate((exp(%p02), tanh(%p02), %p02), axis=1)
          };
          %3(%2)
        }
        """,
    )


def test_result_tuple_stays_outside_of_functions() -> None:
    assert_fuses(
        """
        def @main(%x: Tensor[(2), float32]) {
          (exp(%x), %x)
        }
        """,
        """
        def @main(%x: Tensor[(2), float32]) {
          %0 = fn (%p0: Tensor[(2), float32], Primitive=1) -> Tensor[(2), float32] { exp(%p0) };
          (%0(%x), %x)
        }
        """,
    )


def test_fields_join_operator_of_tuple() -> None:
    mod = read(
        """
        def @main(%x: Tensor[(2, 4), float32]) {
          %0 = split(%x, indices_or_sections=2, axis=1);
          add(%0.0, exp(%0.1))
        }
        """
    )
    assert groups(fused(mod)) == [["split", "exp", "add"]]


def test_field_of_opaque_operator_stays_outside() -> None:
    mod = read(
        """
        def @main(%x: Tensor[(2, 4), float32]) {
          %0 = topk(%x, k=1);
          %0.0
        }
        """
    )
    result = fused(mod)
    assert groups(result) == [["topk"]]
    assert type(result["main"].body).__name__ == "TupleGetItem"


def test_operators_stay_apart_at_level_zero() -> None:
    mod = read("def @main(%x: Tensor[(4), float32]) { tanh(exp(%x)) }")
    assert groups(fused(mod, level=0)) == [["exp"], ["tanh"]]
    assert groups(fused(mod, level=1)) == [["exp", "tanh"]]


def test_fuse_ops_takes_level_as_option() -> None:
    mod = read("def @main(%x: Tensor[(4), float32]) { tanh(exp(%x)) }")
    assert groups(apass.run(FuseOps(fuse_opt_level=0), mod)) == [["exp"], ["tanh"]]
    assert (FuseOps().info.opt_level, FuseOps().info.required) == (0, ("InferType",))
    assert (DefuseOps().info.opt_level, DefuseOps().info.required) == (3, ("InferType",))


def test_max_depth_limits_size_of_function() -> None:
    mod = read("def @main(%x: Tensor[(4), float32]) { exp(exp(exp(exp(exp(%x))))) }")
    result = groups(fused(mod, config={"relay.FuseOps.max_depth": 2}))
    assert result == [["exp", "exp"], ["exp", "exp"], ["exp"]]
    assert groups(fused(mod, config={"relay.FuseOps.max_depth": 1})) == [["exp"]] * 5
    assert len(groups(fused(read(f"def @main(%x: float32) {{ {'exp(' * 257}%x{')' * 257} }}")))) == 2


def test_stop_fusion_prevents_fusion_with_users() -> None:
    mod = read("def @main(%x: Tensor[(4), float32]) { tanh(annotation.stop_fusion(exp(%x))) }")
    assert groups(fused(mod)) == [["exp"], ["tanh"]]


def test_constants_except_simple_scalars_become_parameters() -> None:
    x = var("x", shape=(2,))
    func = infer_function(Function([x], add(add(x, const(1.0)), const([1.0, 2.0]))), IRModule())
    call = fuse_ops(func).body
    assert isinstance(call, Call)
    assert len(call.args) == 2
    linked = fused(IRModule.from_expr(func), config={"relay.FuseOps.link_params": True})["main"].body
    assert isinstance(linked, Call)
    assert len(linked.args) == 1


def test_primitive_and_external_functions_stay() -> None:
    mod = read(
        """
        def @main(%x: Tensor[(4), float32]) {
          %0 = fn (%a: Tensor[(4), float32], Primitive=1) -> Tensor[(4), float32] { exp(%a) };
          %1 = fn (%b: Tensor[(4), float32], Compiler="other") -> Tensor[(4), float32] { exp(%b) };
          %2 = fn (%c: Tensor[(4), float32]) -> Tensor[(4), float32] { exp(%c) };
          %2(%1(%0(%x)))
        }
        """
    )
    result = fused(mod)
    assert groups(result) == [["exp"], ["exp"]]
    external = [node for node in post_order(result["main"]) if isinstance(node, Function) and "Compiler" in node.attrs]
    assert [structural_equal(func.body, exp_of(func.params[0])) for func in external] == [True]


def exp_of(expr: Expr) -> Expr:
    """Return `exp(expr)`."""
    return Call(Op.get("exp"), [expr])


def test_global_function_is_an_operand_of_an_operator() -> None:
    mod = fused(read("def @f(%x: int32) { %x } def @main(%x: int32) { let %g = annotation.checkpoint(@f); %g(%x) }"))
    assert "annotation.checkpoint(@f)" in str(mod["main"])
    assert evaluate(mod, 3) == 3


def test_fusion_stops_at_lets_ifs_and_calls() -> None:
    mod = read(
        """
        def @f(%a: Tensor[(4), float32]) -> Tensor[(4), float32] { tanh(%a) }
        def @main(%x: Tensor[(4), float32], %c: bool) {
          let %y = exp(%x);
          %0 = if (%c) { nn.relu(%y) } else { exp(@f(exp(%y))) };
          tanh(%0)
        }
        """
    )
    assert groups(fused(mod)) == [["exp"], ["nn.relu"], ["exp"], ["exp"], ["tanh"]]


def test_defuse_ops_keeps_plain_functions() -> None:
    x = Var("x")
    plain = Function([x], relu(x))
    func = Function([y := Var("y")], Call(plain, [Call(plain.with_attr("Primitive", 1), [Call(GlobalVar("f"), [y])])]))
    assert_structural_equal(defuse_ops(func), Function([y], Call(plain, [relu(Call(GlobalVar("f"), [y]))])))


def calls(length: int) -> Expr:
    """Return a function of nested calls."""
    x = var("x", shape=(2,))
    expr: Expr = x
    for step in range(length):
        expr = relu(expr) if step % 2 else add(expr, x)
    return Function([x], expr)


def lets(length: int) -> Expr:
    """Return a function of nested Lets."""
    names = [Var(f"v{number}") for number in range(length)]
    expr: Expr = names[-1]
    x = var("x", shape=(2,))
    for name, before in zip(reversed(names), [*reversed(names[:-1]), x], strict=True):
        expr = Let(name, relu(before), expr)
    return Function([x], expr)


@pytest.mark.parametrize(
    ("expr", "count"), [(calls(levels(50_000)), levels(50_000) / 256), (lets(levels(10_000)), levels(10_000))]
)
def test_deep_programs_are_fused(expr: Function, count: float) -> None:
    func = infer_function(expr, IRModule())
    result = fuse_ops(func)
    assert len(groups(IRModule.from_expr(result))) == int(np.ceil(count))
    assert_structural_equal(defuse_ops(result), func)


@pytest.mark.slow
@settings(max_examples=amount(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_fusion_moves_all_operators_and_is_undone(program: Program) -> None:
    mod, arguments = program
    before = infer_module(mod)
    result = infer_module(apass.run(FuseOps(), before))
    for func in result.functions.values():
        outside = post_order(func, lambda node: isinstance(node, Function) and "Primitive" in node.attrs)
        assert [node for node in outside if isinstance(node, Call) and isinstance(node.op, Op)] == []
    assert difference(evaluate(before, *arguments), evaluate(result, *arguments)) == ""
    assert_structural_equal(apass.run(DefuseOps(), result), before)


def test_parameters_are_in_order_of_use() -> None:
    mod = infer_module(parse("def @main(%x: float32, %y: float32) { add(%x, multiply(%y, %x)) }"))
    call = fuse_ops(mod["main"]).body
    assert isinstance(call, Call)
    assert list(call.args) == list(mod["main"].params)
    assert isinstance(call.op, Function)
    assert [param.name_hint for param in call.op.params] == ["p0", "p1"]


def test_arguments_with_writes_keep_evaluation_order() -> None:
    text = """
    def @main(%x: float32) {
      let %r = ref(%x);
      let %next = fn () -> float32 { let %done = ref_write(%r, add(ref_read(%r), 1f)); ref_read(%r) };
      subtract(%next(), multiply(%next(), 2f))
    }
    """
    mod = parse(text)
    fused = infer_module(apass.run(FuseOps(fuse_opt_level=2), mod))
    x = np.float32(3)
    assert difference(evaluate(mod, x), evaluate(fused, x)) == ""
