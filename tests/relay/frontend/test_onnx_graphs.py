"""Functions and subgraphs: inlining of calls, branches, and loops."""

import numpy as np
import pytest
from onnx import helper

from apass.relay.errors import OpNotImplementedError
from apass.relay.expr import Call, Expr, If, Let, Op
from apass.relay.frontend import from_onnx
from apass.relay.ir.post_order import post_order
from apass.relay.type_inference.infer import infer_module
from tests.relay.frontend.models import evaluate_model, import_function, model

ONES = np.ones(2, "float32")


def operators(body: Expr) -> list[str]:
    """Return the names of the called operators in the order of evaluation."""
    return [node.op.name for node in post_order(body) if isinstance(node, Call) and isinstance(node.op, Op)]


def test_model_function_is_inlined_at_each_call() -> None:
    proto = model(
        "g (float[2] x) => (float[2] y) { a = local.f(x)  y = local.f(a) }",
        "f (p) => (q) { r = Neg(p)  q = Exp(r) }",
    )
    assert operators(import_function(proto).body) == ["negative", "exp", "negative", "exp"]


def test_names_of_nested_functions_do_not_clash() -> None:
    proto = model(
        "g (float[2] x) => (float[2] r) { r = local.twice(x) }",
        "twice (x) => (r) { t = local.once(x)  r = local.once(t) }",
        "once (r) => (t) { x = Exp(r)  t = Neg(x) }",
    )
    (result,) = evaluate_model(proto, ONES)
    np.testing.assert_allclose(result, -np.exp(-np.exp(ONES)), rtol=1e-6)


def test_call_attribute_reaches_nodes_that_reference_it() -> None:
    functions = ("f <alpha> (p) => (q) { q = LeakyRelu<alpha: float = @alpha>(p) }",)
    proto = model("g (float[1] x) => (float[1] y) { y = local.f<alpha = 0.25>(x) }", *functions)
    assert evaluate_model(proto, np.asarray([-4], "float32"))[0].tolist() == [-1.0]


def test_omitted_call_attribute_has_function_default() -> None:
    proto = model(
        "g (float[1] x) => (float[1] y) { y = local.f(x) }",
        "f (p) => (q) { q = LeakyRelu<alpha: float = @alpha>(p) }",
    )
    proto.functions[0].attribute_proto.append(helper.make_attribute("alpha", 0.5))
    assert evaluate_model(proto, np.asarray([-4], "float32"))[0].tolist() == [-2.0]


def test_omitted_call_input_is_omitted_in_body() -> None:
    proto = model(
        "g (float[2] x) => (float[2] y) { y = local.f(x) }",
        "f (p, low, high) => (q) { q = Clip(p, low, high) }",
    )
    assert operators(import_function(proto).body) == []


def test_deeply_nested_functions_are_inlined() -> None:
    depth = 500
    inner = [f"f{step} (x) => (y) {{ y = local.f{step + 1}(x) }}" for step in range(depth)]
    proto = model("g (float[2] x) => (float[2] y) { y = local.f0(x) }", *inner, f"f{depth} (x) => (y) {{ y = Neg(x) }}")
    np.testing.assert_array_equal(evaluate_model(proto, ONES)[0], -ONES)


def test_exponential_number_of_inlined_nodes_is_rejected() -> None:
    steps = range(40)
    bodies = [f"f{step} (x) => (y) {{ t = local.f{step + 1}(x)  y = local.f{step + 1}(t) }}" for step in steps]
    proto = model("g (float[2] x) => (float[2] y) { y = local.f0(x) }", *bodies, "f40 (x) => (y) { y = Neg(x) }")
    with pytest.raises(OpNotImplementedError, match="more than 1000 nodes if inlined; raise the limit with"):
        from_onnx(proto, convert_config={"max_inlined_nodes": 1000})


def test_recursive_function_is_rejected() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = local.f(x) }", "f (p) => (q) { r = Neg(p)  q = local.f(r) }")
    with pytest.raises(ValueError, match="cannot inline function 'f' of the ONNX model: it is recursive"):
        from_onnx(proto)


def test_function_body_of_onnx_operator_is_inlined() -> None:
    """SwiGLU has no converter, so its function body in ONNX is imported."""
    proto = model("g (float[4] a, float[4] b) => (float[4] y) { y = SwiGLU(a, b) }", opset=28, ir_version=13)
    gate, value = np.linspace(-2, 2, 4, dtype="float32"), np.arange(4, dtype="float32")
    np.testing.assert_allclose(evaluate_model(proto, gate, value)[0], gate / (1 + np.exp(-gate)) * value, rtol=1e-6)


BRANCHES = """
g (bool c, float[2] x) => (float[2] y) {
    t = Exp(x)
    y = If(c) <then_branch = a () => (float[2] p) { p = Neg(t) }, else_branch = b () => (float[2] q) { q = Add(t, x) }>
}
"""


@pytest.mark.parametrize("condition", [True, False])
def test_if_branches_use_values_of_outer_graph(condition: bool) -> None:
    proto = model(BRANCHES)
    assert isinstance(import_function(proto).body, If)
    (result,) = evaluate_model(proto, condition, ONES)
    np.testing.assert_allclose(result, -np.exp(ONES) if condition else np.exp(ONES) + 1, rtol=1e-6)


def test_branches_with_several_results_return_tuples() -> None:
    proto = model("""
        g (bool[1] c, float[2] x) => (float[2] y, float[2] z) {
            y, z = If(c) <then_branch = a () => (float[2] p, float[2] q) { p = Neg(x)  q = Abs(x) },
                          else_branch = b () => (float[2] r, float[2] s) { r = Exp(x)  s = Log(x) }>
        }
    """)
    assert [output.tolist() for output in evaluate_model(proto, [True], -ONES)] == [[1, 1], [1, 1]]


def test_constant_condition_selects_one_branch() -> None:
    proto = model("""
        g (float[2] x) => (float[2] y) {
            n = Size(x)  two = Constant<value_int = 2>()  c = Equal(n, two)
            y = If(c) <then_branch = a () => (float[2] p) { p = Neg(x) },
                       else_branch = b () => (float[2] q) { q = Exp(x) }>
        }
    """)
    assert operators(import_function(proto).body) == ["negative"]


def test_branches_of_different_lengths_have_unknown_dimension() -> None:
    proto = model("""
        g (bool c, float[2] x) => (float[N] y) {
            y = If(c) <then_branch = a () => (float[2] p) { p = Neg(x) },
                       else_branch = b () => (float[4] q) { q = Concat<axis = 0>(x, x) }>
        }
    """)
    results = [evaluate_model(proto, condition, ONES)[0] for condition in (True, False)]
    assert [result.tolist() for result in results] == [[-1, -1], [1, 1, 1, 1]]


def test_branches_of_different_element_types_are_rejected() -> None:
    proto = model("""
        g (bool c, float[2] x) => (float[2] y) {
            y = If(c) <then_branch = a () => (float[2] p) { p = Neg(x) },
                       else_branch = b () => (bool[2] q) { q = IsNaN(x) }>
        }
    """)
    with pytest.raises(OpNotImplementedError, match="its branches have different types: cannot join the types "):
        from_onnx(proto)


def test_weights_of_branch_are_constants() -> None:
    proto = model("""
        g (bool c, float[2] x) => (float[2] y) {
            y = If(c) <then_branch = a () => (float[2] p) <float[2] w = {1, 2}> { p = Add(x, w) },
                       else_branch = b () => (float[2] q) { q = Neg(x) }>
        }
    """)
    mod, params = from_onnx(proto)
    assert (len(mod["main"].params), params) == (2, {})
    assert evaluate_model(proto, True, ONES)[0].tolist() == [2, 3]


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
    """Return a graph with a loop that adds 1 to `x` and collects squares.

    The loop runs while the sum of `x` is below 9.
    """
    return BODY.format(inputs=inputs, trips=trips, start=start)


def test_loop_with_constant_trip_count_is_unrolled() -> None:
    proto = model(loop("float[2] x", "three", '""').replace("{\n", "{\n three = Constant<value_int = 3>()\n", 1))
    body = import_function(proto).body
    assert not [node for node in post_order(body) if isinstance(node, Let | If)]
    last, rows = evaluate_model(proto, ONES)
    assert (last.tolist(), rows.tolist()) == ([4, 4], [[1, 1], [4, 4], [9, 9]])


def test_loop_without_steps_returns_empty_rows() -> None:
    proto = model(loop("float[2] x", "none", '""').replace("{\n", "{\n none = Constant<value_int = 0>()\n", 1))
    last, rows = evaluate_model(proto, ONES)
    assert (last.tolist(), rows.shape) == ([1, 1], (0, 2))


@pytest.mark.parametrize(
    ("trips", "start", "steps"), [(3, True, 3), (0, True, 0), (100, True, 4), (5, False, 0)], ids=str
)
def test_dynamic_loop_becomes_recursive_function(trips: int, start: bool, steps: int) -> None:
    proto = model(loop("int64 m, bool s, float[2] x", "m", "s"))
    body = import_function(proto).body
    assert [node for node in post_order(body) if isinstance(node, Let)]
    last, rows = evaluate_model(proto, trips, start, ONES)
    assert (last.tolist(), rows.tolist()) == ([1 + steps] * 2, [[(1 + step) ** 2] * 2 for step in range(steps)])
    assert str(infer_module(from_onnx(proto)[0])["main"].checked_type).endswith(
        "-> (Tensor[(2), float32], Tensor[(?, 2), float32])"
    )


def test_loop_without_limit_runs_while_condition_holds() -> None:
    last, rows = evaluate_model(model(loop("bool s, float[2] x", '""', "s")), True, ONES)
    assert (last.tolist(), len(rows)) == ([5, 5], 4)


def test_loop_carried_value_may_grow() -> None:
    proto = model("""
        g (int64 m, float[N] x) => (float[K] y) {
            y = Loop(m, "", x) <body = b (int64 i, bool c, float[L] v) => (bool d, float[M] w) {
                d = Identity(c)  w = Concat<axis = 0>(v, v)
            }>
        }
    """)
    assert evaluate_model(proto, 3, ONES)[0].shape == (16,)


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
def test_scan_is_unrolled(backwards: str, last: list[int], rows: list[list[int]]) -> None:
    proto = model(SCAN.replace("BACKWARDS", backwards))
    result = evaluate_model(proto, np.zeros(2, "float32"), np.arange(6, dtype="float32").reshape(3, 2))
    assert [output.tolist() for output in result] == [last, rows]


def test_sequence_operators_compute_on_tuples() -> None:
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
    result = evaluate_model(proto, np.arange(6, dtype="float32"))
    assert [output.tolist() for output in result] == [[3, 4, 5, 0, 1, 2], 3]
