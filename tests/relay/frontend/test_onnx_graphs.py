"""Functions, and graphs within graphs: calls are inlined, branches become If, loops are unrolled or recursive."""

import numpy as np
import pytest
from onnx import helper

from apass.relay.errors import OpNotImplementedError
from apass.relay.expr import Call, Expr, If, Let, Op
from apass.relay.frontend import from_onnx
from apass.relay.ir.post_order import post_order
from apass.relay.type_inference.infer import infer_module
from tests.relay.frontend.models import evaluated, imported, model

ONES = np.ones(2, "float32")


def operators(body: Expr) -> list[str]:
    """Return the names of the operators that an expression calls, in the order of evaluation."""
    return [one.op.name for one in post_order(body) if isinstance(one, Call) and isinstance(one.op, Op)]


def test_a_function_of_the_model_is_inlined_at_each_call() -> None:
    proto = model(
        "g (float[2] x) => (float[2] y) { a = local.f(x)  y = local.f(a) }",
        "f (p) => (q) { r = Neg(p)  q = Exp(r) }",
    )
    assert operators(imported(proto).body) == ["negative", "exp", "negative", "exp"]


def test_functions_call_functions_and_names_do_not_clash() -> None:
    proto = model(
        "g (float[2] x) => (float[2] r) { r = local.twice(x) }",
        "twice (x) => (r) { t = local.once(x)  r = local.once(t) }",
        "once (r) => (t) { x = Exp(r)  t = Neg(x) }",
    )
    (made,) = evaluated(proto, ONES)
    np.testing.assert_allclose(made, -np.exp(-np.exp(ONES)), rtol=1e-6)


def test_an_attribute_of_a_call_goes_to_the_nodes_that_refer_to_it() -> None:
    functions = ("f <alpha> (p) => (q) { q = LeakyRelu<alpha: float = @alpha>(p) }",)
    proto = model("g (float[1] x) => (float[1] y) { y = local.f<alpha = 0.25>(x) }", *functions)
    assert evaluated(proto, np.asarray([-4], "float32"))[0].tolist() == [-1.0]


def test_an_attribute_that_a_call_leaves_out_has_the_default_of_the_function() -> None:
    proto = model(
        "g (float[1] x) => (float[1] y) { y = local.f(x) }",
        "f (p) => (q) { q = LeakyRelu<alpha: float = @alpha>(p) }",
    )
    proto.functions[0].attribute_proto.append(helper.make_attribute("alpha", 0.5))
    assert evaluated(proto, np.asarray([-4], "float32"))[0].tolist() == [-2.0]


def test_an_input_that_a_call_leaves_out_is_left_out_in_the_body() -> None:
    proto = model(
        "g (float[2] x) => (float[2] y) { y = local.f(x) }",
        "f (p, low, high) => (q) { q = Clip(p, low, high) }",
    )
    assert operators(imported(proto).body) == []


def test_functions_may_call_each_other_to_any_depth() -> None:
    depth = 500
    inner = [f"f{step} (x) => (y) {{ y = local.f{step + 1}(x) }}" for step in range(depth)]
    proto = model("g (float[2] x) => (float[2] y) { y = local.f0(x) }", *inner, f"f{depth} (x) => (y) {{ y = Neg(x) }}")
    np.testing.assert_array_equal(evaluated(proto, ONES)[0], -ONES)


def test_a_function_that_calls_itself_is_refused() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = local.f(x) }", "f (p) => (q) { r = Neg(p)  q = local.f(r) }")
    with pytest.raises(ValueError, match="the function 'f' of the ONNX model calls itself"):
        from_onnx(proto)


def test_what_onnx_defines_by_other_operators_is_inlined_too() -> None:
    """SwiGLU has no converter: ONNX's own function body of it is imported."""
    proto = model("g (float[4] a, float[4] b) => (float[4] y) { y = SwiGLU(a, b) }", opset=28, ir_version=13)
    gate, value = np.linspace(-2, 2, 4, dtype="float32"), np.arange(4, dtype="float32")
    np.testing.assert_allclose(evaluated(proto, gate, value)[0], gate / (1 + np.exp(-gate)) * value, rtol=1e-6)


BRANCHES = """
g (bool c, float[2] x) => (float[2] y) {
    t = Exp(x)
    y = If(c) <then_branch = a () => (float[2] p) { p = Neg(t) }, else_branch = b () => (float[2] q) { q = Add(t, x) }>
}
"""


@pytest.mark.parametrize("condition", [True, False])
def test_a_branch_is_an_if_that_uses_what_is_around_it(condition: bool) -> None:
    proto = model(BRANCHES)
    assert isinstance(imported(proto).body, If)
    (made,) = evaluated(proto, condition, ONES)
    np.testing.assert_allclose(made, -np.exp(ONES) if condition else np.exp(ONES) + 1, rtol=1e-6)


def test_branches_of_several_results_are_tuples() -> None:
    proto = model("""
        g (bool[1] c, float[2] x) => (float[2] y, float[2] z) {
            y, z = If(c) <then_branch = a () => (float[2] p, float[2] q) { p = Neg(x)  q = Abs(x) },
                          else_branch = b () => (float[2] r, float[2] s) { r = Exp(x)  s = Log(x) }>
        }
    """)
    assert [one.tolist() for one in evaluated(proto, [True], -ONES)] == [[1, 1], [1, 1]]


def test_a_condition_that_is_known_leaves_one_branch() -> None:
    proto = model("""
        g (float[2] x) => (float[2] y) {
            n = Size(x)  two = Constant<value_int = 2>()  c = Equal(n, two)
            y = If(c) <then_branch = a () => (float[2] p) { p = Neg(x) },
                       else_branch = b () => (float[2] q) { q = Exp(x) }>
        }
    """)
    assert operators(imported(proto).body) == ["negative"]


def test_branches_of_different_lengths_have_a_dimension_that_is_not_known() -> None:
    proto = model("""
        g (bool c, float[2] x) => (float[N] y) {
            y = If(c) <then_branch = a () => (float[2] p) { p = Neg(x) },
                       else_branch = b () => (float[4] q) { q = Concat<axis = 0>(x, x) }>
        }
    """)
    assert [evaluated(proto, one, ONES)[0].tolist() for one in (True, False)] == [[-1, -1], [1, 1, 1, 1]]


def test_branches_of_different_element_types_are_refused() -> None:
    proto = model("""
        g (bool c, float[2] x) => (float[2] y) {
            y = If(c) <then_branch = a () => (float[2] p) { p = Neg(x) },
                       else_branch = b () => (bool[2] q) { q = IsNaN(x) }>
        }
    """)
    with pytest.raises(OpNotImplementedError, match="its branches do not agree: a value cannot be of the types "):
        from_onnx(proto)


def test_the_weights_of_a_branch_are_constants() -> None:
    proto = model("""
        g (bool c, float[2] x) => (float[2] y) {
            y = If(c) <then_branch = a () => (float[2] p) <float[2] w = {1, 2}> { p = Add(x, w) },
                       else_branch = b () => (float[2] q) { q = Neg(x) }>
        }
    """)
    mod, params = from_onnx(proto)
    assert (len(mod["main"].params), params) == (2, {})
    assert evaluated(proto, True, ONES)[0].tolist() == [2, 3]


BODY = """
    g ({inputs}) => (float[2] last, float[N, 2] rows) {{
        last, rows = Loop({trips}, {start}, x) <body = b (int64 i, bool c, float[2] v) =>
            (bool d, float[2] w, float[2] row) {{
                one = Constant<value_floats = [1.0, 1.0]>()
                w = Add(v, one)
                row = Mul(v, v)
                total = ReduceSum<keepdims = 0>(w)
                limit = Constant<value_float = 9.0>()
                d = Less(total, limit)
            }}>
    }}
"""


def loop(inputs: str, trips: str, start: str) -> str:
    """Return a graph with a loop that adds 1 to `x` and collects its squares, while the sum is below 9."""
    return BODY.format(inputs=inputs, trips=trips, start=start)


def test_a_loop_of_a_known_number_of_steps_is_unrolled() -> None:
    proto = model(loop("float[2] x", "three", '""').replace("{\n", "{\n three = Constant<value_int = 3>()\n", 1))
    body = imported(proto).body
    assert not [one for one in post_order(body) if isinstance(one, Let | If)]
    last, rows = evaluated(proto, ONES)
    assert (last.tolist(), rows.tolist()) == ([4, 4], [[1, 1], [4, 4], [9, 9]])


def test_a_loop_without_steps_collects_nothing() -> None:
    proto = model(loop("float[2] x", "none", '""').replace("{\n", "{\n none = Constant<value_int = 0>()\n", 1))
    last, rows = evaluated(proto, ONES)
    assert (last.tolist(), rows.shape) == ([1, 1], (0, 2))


@pytest.mark.parametrize(
    ("trips", "start", "steps"), [(3, True, 3), (0, True, 0), (100, True, 4), (5, False, 0)], ids=str
)
def test_a_loop_that_ends_at_run_time_is_a_function_that_calls_itself(trips: int, start: bool, steps: int) -> None:
    proto = model(loop("int64 m, bool s, float[2] x", "m", "s"))
    body = imported(proto).body
    assert [one for one in post_order(body) if isinstance(one, Let)]
    last, rows = evaluated(proto, trips, start, ONES)
    assert (last.tolist(), rows.tolist()) == ([1 + steps] * 2, [[(1 + one) ** 2] * 2 for one in range(steps)])
    assert str(infer_module(from_onnx(proto)[0])["main"].checked_type).endswith(
        "-> (Tensor[(2), float32], Tensor[(?, 2), float32])"
    )


def test_a_loop_without_a_limit_goes_on_while_its_condition_holds() -> None:
    last, rows = evaluated(model(loop("bool s, float[2] x", '""', "s")), True, ONES)
    assert (last.tolist(), len(rows)) == ([5, 5], 4)


def test_what_a_loop_carries_may_grow() -> None:
    proto = model("""
        g (int64 m, float[N] x) => (float[K] y) {
            y = Loop(m, "", x) <body = b (int64 i, bool c, float[L] v) => (bool d, float[M] w) {
                d = Identity(c)  w = Concat<axis = 0>(v, v)
            }>
        }
    """)
    assert evaluated(proto, 3, ONES)[0].shape == (16,)


SCAN = """
g (float[2] s, float[3, 2] x) => (float[2] t, float[3, 2] y) {
    t, y = Scan<num_scan_inputs = 1, BACKWARDS
        body = b (float[2] a, float[2] e) => (float[2] c, float[2] d) { c = Add(a, e)  d = Identity(c) }>(s, x)
}
"""


@pytest.mark.parametrize(
    ("backwards", "last", "rows"),
    [
        ("", [6, 9], [[0, 1], [2, 4], [6, 9]]),
        ("scan_input_directions = [1],", [6, 9], [[4, 5], [6, 8], [6, 9]]),
        ("scan_output_directions = [1],", [6, 9], [[6, 9], [2, 4], [0, 1]]),
        ("scan_output_axes = [1],", [6, 9], [[0, 2, 6], [1, 4, 9]]),
    ],
)
def test_a_scan_is_unrolled(backwards: str, last: list[int], rows: list[list[int]]) -> None:
    proto = model(SCAN.replace("BACKWARDS", backwards))
    made = evaluated(proto, np.zeros(2, "float32"), np.arange(6, dtype="float32").reshape(3, 2))
    assert [one.tolist() for one in made] == [last, rows]


def test_sequences_are_tuples() -> None:
    proto = model("""
        g (float[6] x) => (float[6] y, int64 n) {
            sizes = Constant<value_ints = [1, 2, 3]>()
            s = SplitToSequence<axis = 0>(x, sizes)
            first = Constant<value_int = 0>()  last = Constant<value_int = -1>()
            a = SequenceAt(s, last)
            t = SequenceErase(s, last)
            u = SequenceInsert(t, a, first)
            n = SequenceLength(u)
            y = ConcatFromSequence<axis = 0>(u)
        }
    """)
    made = evaluated(proto, np.arange(6, dtype="float32"))
    assert [one.tolist() for one in made] == [[3, 4, 5, 0, 1, 2], 3]
