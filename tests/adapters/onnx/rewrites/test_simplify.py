"""Edge cases of `onnx.Simplify`, rule by rule."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import apass
from apass.adapters.onnx import ADAPTER
from apass.adapters.onnx.rewrites import SimplifyPass
from tests.helpers.onnx_models import chain, model_of, op_types, outputs, run
from tests.helpers.rows import row


def operators(graph: str, *functions: str) -> list[str]:
    """Return the operators that are left of the main graph."""
    model = model_of(graph, *functions)
    before = ADAPTER.fingerprint(model)
    result = run("onnx.Simplify", model)
    assert ADAPTER.fingerprint(model) == before
    ADAPTER.verify(result)
    return op_types(result)


def unary(nodes: str, types: str = "float[N, 4] x", result: str = "float[N, 4] y", weights: str = "") -> list[str]:
    """Return the operators that are left of nodes from `x` to `y`."""
    return operators(f"g ({types}) => ({result}) {f'<{weights}>' if weights else ''} {{ {nodes} }}")


@pytest.mark.parametrize(
    "nodes",
    [
        "a = Relu(x) b = Identity(a) y = Neg(b)",
        "a = Relu(x) b = Cast <to: int = 1> (a) y = Neg(b)",
        "a = Relu(x) b = Transpose <perm: ints = [0, 1]> (a) y = Neg(b)",
        "a = Relu(x) s = Shape(a) b = Reshape(a, s) y = Neg(b)",
        "a = Relu(x) s = Shape(x) b = Expand(a, s) y = Neg(b)",
        "a = Relu(x) b = Concat <axis: int = 0> (a) y = Neg(b)",
        "a = Relu(x) b, mask = Dropout(a) y = Neg(b)",
        "a = Relu(x) b = Relu(a) y = Neg(b)",
        "a = Relu(x) t = Transpose(a) b = Transpose(t) y = Neg(b)",
        "a = Relu(x) c = Cast <to: int = 11> (a) b = Cast <to: int = 1> (c) y = Neg(b)",
        (
            "a = Relu(x) i, j = Split <axis: int = 1, num_outputs: int = 2> (a) "
            "b = Concat <axis: int = 1> (i, j) y = Neg(b)"
        ),
    ],
)
def test_node_without_effect_is_removed(nodes: str) -> None:
    assert unary(nodes) == ["Relu", "Neg"]


@pytest.mark.parametrize(
    ("operator", "number", "is_removed"),
    [
        ("Add", "0.0", False),  # -0.0 + 0.0 is 0.0
        ("Add", "-0.0", True),
        ("Sub", "0.0", True),
        ("Sub", "-0.0", False),
        ("Mul", "1.0", True),
        ("Div", "1.0", True),
        ("Pow", "1.0", True),
        ("Mul", "0.0", False),
    ],
)
def test_neutral_number_respects_negative_zero(operator: str, number: str, is_removed: bool) -> None:
    model = model_of(f"g (float[2] x) => (float[2] y) <float c = {{1}}> {{ a = {operator}(x, c) y = Neg(a) }}")
    model.graph.initializers["c"].const_value = ir.tensor(np.array(float(number), np.float32), name="c")
    result = run("onnx.Simplify", model)
    assert op_types(result) == (["Neg"] if is_removed else [operator, "Neg"])


def test_empty_slice_of_joined_floats_is_no_integer() -> None:
    weights = "int64[1] start = {0}, int64[1] end = {1}, int64[1] axis = {0}, int64[1] step = {-1}"
    nodes = "j = Concat <axis: int = 0> (x, x) s = Slice(j, start, end, axis, step) y = Concat <axis: int = 0> (s, j)"
    assert unary(nodes, "float[2] x", "float[4] y", weights) == ["Concat"]


def test_views_of_empty_dimensions_are_not_merged() -> None:
    nodes = "a = Unsqueeze(x, one) b = Unsqueeze(a, one) y = Transpose <perm: ints = [3, 1, 2, 0]> (b)"
    model = model_of(f"g (float[N, M] x) => (float[M, 1, 1, N] y) <int64[1] one = {{1}}> {{ {nodes} }}")
    empty = np.zeros((0, 3), np.float32)
    assert outputs(run("onnx.Simplify", model), empty) == outputs(model, empty)


def test_slice_that_evaluators_disagree_on_is_kept() -> None:
    weights = "float[1, 3] c = {1, 2, 3}, int64[1] start = {0}, int64[1] end = {9223372036854775807}"
    weights += ", int64[1] axis = {0}, int64[1] step = {-1}"
    nodes = "s = Slice(c, start, end, axis, step) y = Concat <axis: int = 0> (s, x)"
    assert unary(nodes, "float[N, 3] x", "float[M, 3] y", weights) == ["Slice", "Concat"]


def test_clip_without_bounds_is_removed_for_integers_only() -> None:
    # The default bounds are the lowest and the largest finite number, which infinities exceed.
    assert unary("a = Abs(x) b = Clip(a) y = Neg(b)", "int32[2] x", "int32[2] y") == ["Abs", "Neg"]
    assert unary("a = Abs(x) b = Clip(a) y = Neg(b)") == ["Abs", "Clip", "Neg"]


def test_any_axis_of_a_scalar_is_accepted() -> None:
    for nodes in (
        "a = Abs(x) i = ArgMin <keepdims: int = 0> (a) y = Unsqueeze(i, zero)",
        "a = Abs(x) m = ReduceMax(a, zero) n = Neg(m) y = Cast <to: int = 7> (n)",
    ):
        with row(nodes):
            result = unary(nodes, "float x", "int64[K] y", "int64[1] zero = {0}")
            assert result[0] == "Abs"


def test_expanded_operand_is_kept_if_scalars_differ() -> None:
    # onnxruntime multiplies for a scalar exponent, and takes another zero of two for a scalar.
    for operator in ("Pow", "Max", "Min"):
        nodes = f"a = Abs(x) s = Shape(x) e = Expand(three, s) y = {operator}(a, e)"
        with row(operator):
            result = unary(nodes, "float[N] x", "float[M] y", "float three = {3}")
            assert result == ["Abs", "Shape", "Expand", operator]


def test_power_of_integers_is_kept() -> None:
    # onnxruntime computes it in double, which cannot represent large integers.
    assert unary("a = Pow(x, c) y = Neg(a)", "int64[2] x", "int64[2] y", "int64 c = {1}") == ["Pow", "Neg"]


def test_where_is_kept_if_signs_of_zeros_matter() -> None:
    # onnxruntime keeps the sign of a zero of the third operand only.
    rows = [
        ("n = Not(c) y = Where(n, x, z)", ["Not", "Where"]),
        ("n = Not(c) w = Where(n, x, z) y = Exp(w)", ["Where", "Exp"]),
        ("n = Not(c) a = Abs(x) b = Exp(z) w = Where(n, a, b) y = Neg(w)", ["Abs", "Exp", "Where", "Neg"]),
        ("w = Where(c, x, x) y = Neg(w)", ["Where", "Neg"]),
        ("w = Where(c, x, x) y = Softmax(w)", ["Softmax"]),
    ]
    for nodes, expected in rows:
        with row(nodes):
            assert unary(nodes, "bool[2] c, float[2] x, float[2] z", "float[2] y") == expected
    assert unary(rows[0][0], "bool[2] c, int32[2] x, int32[2] z", "int32[2] y") == ["Where"]


def test_negative_zero_chosen_by_where_is_not_folded() -> None:
    weights = "bool c = {1}, float a = {0}, float b = {1}"
    model = model_of(f"g (float[2] x) => (float[2] y) <{weights}> {{ w = Where(c, a, b) y = Add(x, w) }}")
    assert op_types(run("onnx.Simplify", model)) == ["Add"]
    model.graph.initializers["a"].const_value = ir.tensor(np.array(-0.0, np.float32), name="a")
    assert op_types(run("onnx.Simplify", model)) == ["Where", "Add"]


def test_squeeze_with_empty_axes_is_kept() -> None:
    # The reference evaluator removes no axis, onnxruntime all of size 1.
    nodes = "a = Squeeze(x, none) s = Shape(a) y = Neg(s)"
    assert unary(nodes, "float[1, 4] x", "int64[N] y", "int64[0] none = {}") == ["Squeeze", "Shape", "Neg"]


def test_operand_of_old_maximum_is_not_broadcast() -> None:
    text = """<ir_version: 4, opset_import: ["": 7]> g (float[3] x, float[1, 3] z) => (float[1, 3] y) {
        a = Unsqueeze <axes: ints = [0]> (x) y = Max(a, z)
    }"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    assert op_types(run("onnx.Simplify", model)) == ["Unsqueeze", "Max"]


def test_element_of_another_domain_is_kept() -> None:
    model = model_of(
        "g (float[2] x) => (float[2] y) <int64 i = {0}> { s = local.SequenceConstruct(x) y = SequenceAt(s, i) }",
        "SequenceConstruct (p) => (q) { n = Neg(p) q = SequenceConstruct(n) }",
    )
    assert op_types(run("onnx.Simplify", model)) == ["SequenceConstruct", "SequenceAt"]


def test_neutral_number_that_broadcasts_is_kept() -> None:
    assert unary("a = Mul(x, c) y = Neg(a)", "float[4] x", "float[1, 4] y", "float[1, 1] c = {1}") == ["Mul", "Neg"]


def test_lossy_pair_of_casts_is_kept() -> None:
    assert unary("a = Cast <to: int = 10> (x) y = Cast <to: int = 1> (a)") == ["Cast", "Cast"]


def test_overridable_initializer_is_not_constant() -> None:
    model = model_of("g (float[2] x, float c) => (float[2] y) { y = Mul(x, c) }")
    value = model.graph.inputs[1]
    value.const_value = ir.tensor(np.array(1, np.float32), name="c")
    model.graph.register_initializer(value)
    assert run("onnx.Simplify", model) is model


def test_shapes_of_inputs_fold_to_constants() -> None:
    text = """g (float[2, 3, 4] x) => (float[6, 4] y) <int64 last = {2}, int64[1] zero = {0}, int64[1] free = {-1}> {
        s = Shape(x) d = Gather(s, last) e = Unsqueeze(d, zero) t = Concat <axis: int = 0> (free, e) y = Reshape(x, t)
    }"""
    assert operators(text) == ["Reshape"]


def test_symbolic_dimension_stays_symbolic() -> None:
    text = """g (float[N, 4] x, float[M, 4] z) => (float[A, 4] y) {
        s = Shape(z) y = Expand(x, s)
    }"""
    assert operators(text) == ["Shape", "Expand"]


def test_shape_with_one_unknown_size_is_inferred() -> None:
    rows = {
        "s = Shape(z) y = Reshape(x, s)": [-1, 4],
        "s = Shape<end=1>(x) t = Concat<axis=0>(s, two, free) y = Reshape(x, t)": [0, 2, -1],
        "s = Shape<end=1>(z) t = Concat<axis=0>(s, free) y = Reshape(x, t)": None,
        "s = Shape<end=1>(x) t = Concat<axis=0>(two, two, s) y = Reshape(x, t)": [2, 2, -1],
    }
    for nodes, target in rows.items():
        with row(nodes):
            constants = "int64[1] two = {2}, int64[1] free = {-1}"
            text = f"g (float[N,4] x, float[M,4] z) => (float y) <{constants}> {{ {nodes} }}"
            reshape = run("onnx.Simplify", model_of(text)).graph[-1]
            operand = None if reshape.inputs[1] is None else reshape.inputs[1].const_value
            assert (None if operand is None else operand.numpy().tolist()) == target


def test_equal_names_of_dimensions_are_equal_sizes() -> None:
    text = "g (float[{0}] x, float[{0}] z) => (float[{0}] y) {{ s = Shape(z) a = Expand(x, s) y = Neg(a) }}"
    assert operators(text.format("N")) == ["Neg"]
    # What exporters write for each dimension is no name.
    for name in ("None", "unknown"):
        assert operators(text.format(name)) == ["Shape", "Expand", "Neg"]


def test_reshape_by_possible_zero_is_kept() -> None:
    # A size of 0 would be that of the operand.
    text = "g (float[2, 3] x, float[N] z) => (float[A, B] y) <int64[1] free = {-1}> { s = Shape(z) "
    assert operators(f"{text} t = Concat <axis: int = 0> (s, free) y = Reshape(x, t) }}")[-1] == "Reshape"


def test_result_that_is_an_output_keeps_its_name() -> None:
    model = model_of("g (float[2] x) => (float[2] y, float[2] z) { a = Relu(x) y = Identity(a) z = Identity(a) }")
    result = run("onnx.Simplify", model)
    assert [value.name for value in result.graph.outputs] == ["y", "z"]
    assert outputs(result, np.array([1, -1], np.float32)) == [[1, 0], [1, 0]]


def test_constant_output_stays_a_node() -> None:
    assert unary("y = Add(c, c)", "float x", "float y", "float c = {2}") == ["Constant"]


def test_constant_nodes_become_initializers() -> None:
    model = model_of("g (float x) => (float y) { c = Constant <value_float: float = 2.0> () y = Add(x, c) }")
    result = run("onnx.Simplify", model)
    assert op_types(result) == ["Add"]
    assert list(result.graph.initializers) == ["c"]


def test_old_ir_version_keeps_constant_nodes() -> None:
    model = model_of("g (float x) => (float y) { c = Constant <value_float: float = 2.0> () y = Add(x, c) }")
    model.ir_version = 3
    assert run("onnx.Simplify", model) is model


def test_constants_in_functions_stay_nodes() -> None:
    function = "f (p) => (q) { c = Constant <value_float: float = 2.0> () d = Add(c, c) q = Mul(p, d) }"
    result = run("onnx.Simplify", model_of("g (float x) => (float y) { y = local.f(x) }", function))
    [body] = result.functions.values()
    assert [node.op_type for node in body] == ["Constant", "Mul"]


def test_attribute_of_a_function_is_not_constant() -> None:
    function = "f <axis> (p) => (q) { q = Concat <axis: int = @axis> (p) }"
    model = model_of("g (float[2] x) => (float[2] y) { y = local.f <axis: int = 0> (x) }", function)
    assert run("onnx.Simplify", model) is model


BRANCHES = """If (c) <then_branch = t () => (float[2] u) { k = Relu(x) u = Neg(k) },
                      else_branch = e () => (float[2] v) <float[2] k = {1, 2}> { v = Mul(x, k) }>"""


@pytest.mark.parametrize(("condition", "expected"), [(1, ["Relu", "Neg"]), (0, ["Mul"])])
def test_constant_branch_is_inlined(condition: int, expected: list[str]) -> None:
    text = f"g (float[2] x) => (float[2] y) <bool c = {{{condition}}}> {{ y = {BRANCHES} }}"
    assert operators(text) == expected


def test_inlined_branches_get_different_names() -> None:
    second = BRANCHES.replace("(float[2] u)", "(float[2] u2)").replace("u = ", "u2 = ")
    text = f"g (float[2] x) => (float[2] y, float[2] z) <bool c = {{1}}> {{ y = {BRANCHES} z = {second} }}"
    model = model_of(text)
    result = run("onnx.Simplify", model)
    ADAPTER.verify(result)
    assert outputs(result, np.array([1, 2], np.float32)) == outputs(model, np.array([1, 2], np.float32))


def test_loop_without_iterations_is_removed() -> None:
    text = """g (float[2] x) => (float[2] y) <int64 n = {0}, bool c = {1}> {
        a = Loop (n, c, x)
            <body = b (int64 i, bool p, float[2] s) => (bool q, float[2] t) { q = Identity(p) t = Neg(s) }>
        y = Relu(a)
    }"""
    assert operators(text) == ["Relu"]


def test_random_nodes_are_not_folded() -> None:
    assert unary("y = RandomUniform <shape: ints = [4]> ()", "float x", "float[4] y") == ["RandomUniform"]
    assert unary("y = Bernoulli(c)", "float x", "float[2] y", "float[2] c = {0.5, 0.5}") == ["Bernoulli"]


def test_training_dropout_is_kept() -> None:
    nodes, weights = "a, m = Dropout(x, r, t) y = Neg(a)", "float r = {0.5}, bool t = {1}"
    assert unary(nodes, weights=weights) == ["Dropout", "Neg"]


def test_other_domains_are_kept() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21, "other": 1]> g (float x) => (float y) { y = other.Identity(x) }'
    )
    model = ir.from_proto(proto)
    assert run("onnx.Simplify", model) is model


@pytest.mark.parametrize(
    "nodes",
    [
        "a = ConstantOfShape(big) y = ReduceMax(a)",
        "a = Expand(one, big) y = ReduceMax(a)",
        "a = Tile(one, big) y = ReduceMax(a)",
        (
            "z = Constant <value_int: int = 0> () d = Constant <value_int: int = 1> () m = Constant "
            "<value_int: int = 4611686018427387904> () r = Range(z, m, d) c = Cast <to: int = 1> (r) y = ReduceMax(c)"
        ),
    ],
)
def test_huge_value_is_not_computed(nodes: str) -> None:
    left = unary(nodes, "float x", "float y", "int64[1] big = {1099511627776}, float[1] one = {1}")
    assert "ReduceMax" in left


def test_total_of_computed_constants_is_limited() -> None:
    nodes = " ".join(f"a{i} = Expand(one, size) b{i} = Add(x, a{i}) " for i in range(40))
    total = " ".join(f"s{i + 1} = Add(s{i}, b{i}) " for i in range(40))
    weights = "int64[1] size = {262144}, float[1] one = {1}"
    model = model_of(f"g (float x) => (float[262144] y) <{weights}> {{ s0 = Neg(x) {nodes} {total} y = Abs(s40) }}")
    SimplifyPass()(model)
    held = sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None)
    assert held <= 17 * 2**20


def test_division_that_rounds_negative_integers_is_kept() -> None:
    # ONNX truncates, the reference evaluator rounds down.
    assert unary("y = Div(a, b)", "int64 x", "int64 y", "int64 a = {-7}, int64 b = {2}") == ["Div"]
    assert unary("y = Div(a, b)", "int64 x", "int64 y", "int64 a = {7}, int64 b = {2}") == ["Constant"]


def test_division_by_zero_is_kept() -> None:
    assert unary("y = Div(a, b)", "int64 x", "int64 y", "int64 a = {7}, int64 b = {0}") == ["Div"]


@pytest.mark.parametrize(
    ("dtype", "operator", "numbers", "is_kept"),
    [
        ("int32", "ReduceSum", "2147483647, 1", True),  # onnxruntime clips the sum, the reference evaluator wraps it
        ("int32", "ReduceSum", "2147483640, 1", False),
        ("int64", "ReduceSum", "9007199254740992, 1", True),  # onnxruntime adds in float64
        ("int32", "ReduceProd", "65536, 65536", True),
        ("int32", "ReduceProd", "65536, 65536, 0", True),
        ("int32", "ReduceProd", "65536, -2", False),
    ],
)
def test_reduction_that_overflows_is_kept(dtype: str, operator: str, numbers: str, is_kept: bool) -> None:
    weights = f"{dtype}[{numbers.count(',') + 1}] c = {{{numbers}}}"
    left = unary(f"y = {operator}(c)", "float[1] x", f"{dtype}[1] y", weights)
    assert left == ([operator] if is_kept else ["Constant"])


def test_cast_out_of_range_is_kept() -> None:
    assert unary("y = Cast <to: int = 3> (a)", "float x", "int8 y", "float a = {300}") == ["Cast"]


def test_not_a_number_is_not_computed() -> None:
    # The sign of a new NaN depends on the processor.
    assert unary("y = Div(a, a)", "float x", "float y", "float a = {0}") == ["Div"]


def test_transcendental_function_is_left_to_level_3() -> None:
    model = model_of("g (float x) => (float y) <float c = {2}> { a = Exp(c) y = Mul(x, a) }")
    pipeline = apass.get_pass("onnx.Default")
    at_2, at_3 = (apass.run(pipeline, model, context=apass.PassContext(opt_level=level)) for level in (2, 3))
    assert (op_types(at_2), op_types(at_3)) == (["Exp", "Mul"], ["Mul"])


def test_large_model_is_simplified_in_linear_time() -> None:
    model = chain(2000)
    assert run("onnx.Simplify", model).graph.num_nodes() == 1


def test_nodes_in_any_order_are_kept_valid() -> None:
    model = model_of("g (float[2] x) => (float[2] y) { y = Neg(b) b = Identity(a) a = Relu(x) }")
    result = run("onnx.TopologicalSort", run("onnx.Simplify", model))
    assert (op_types(result), outputs(result, np.ones(2, np.float32))) == (["Relu", "Neg"], [[-1, -1]])


def test_inlined_branch_gets_names_of_its_own() -> None:
    model = model_of(
        """g (float[4] a) => (float[4] x) {
            cond = Constant <value: tensor = bool {1}> ()
            u = If (cond) <then_branch = t () => (float[4] x) { x = Relu(a) },
                           else_branch = e () => (float[4] z) { z = Neg(a) }>
            x = Add(u, a)
        }"""
    )
    ADAPTER.verify(model)
    result = run("onnx.Simplify", model)
    assert (op_types(result), result.graph.outputs[0].name) == (["Relu", "Add"], "x")
    ADAPTER.verify(result)


def test_damaged_node_is_named() -> None:
    # A branch whose name has a flipped letter, and a node without its input.
    branch = """g (float[2] x) => (float[2] y) <bool c = {1}> {
        y = If(c) <else_branch: graph = e () => (float[2] a) { a = Relu(x) },
                   then_brancl: graph = t () => (float[2] b) { b = Neg(x) }> }"""
    rows = {
        branch: "^node 'y' of the operator 'If' cannot be rewritten: KeyError: 'then_branch'; check the model",
        "g (float[2] x) => (float[2] y) { a = Transpose <perm: ints = [0]> () y = Transpose(a) }": "^node '[ay]'",
    }
    for graph, message in rows.items():
        with row(graph), pytest.raises(apass.errors.AdapterError, match=message):
            run("onnx.Default", model_of(graph))


def test_sizes_of_other_tensors_are_reused() -> None:
    text = """g (float[N, 4] x) => (float[N, 4] y, int64[1] u) <int64[1] first = {0}> {
        a = Relu(x) s = Shape(x) m = Gather(s, first) t = Shape(a) n = Gather(t, first) o = Identity(m) u = Add(o, n)
        y = Neg(a)
    }"""
    assert operators(text) == ["Relu", "Shape", "Add", "Neg"]


CONDITIONS = {
    "minus = Constant<value_ints=[-1]>() c = Equal(n, minus) y = Where(c, two, n)": ["Shape"],
    "zero = Constant<value_ints=[0]>() c = Less(n, zero) y = Where(c, two, n)": ["Shape"],
    "c = Equal(n, n) y = Where(c, two, n)": ["Constant"],
    "c = Greater(n, two) y = Where(c, two, n)": ["Shape", "Greater", "Where"],
    "i = Cast<to=6>(n) j = Cast<to=7>(i) y = Add(j, two)": ["Shape", "Add"],
}
"""Nodes after the first size of `x`, with the operators that are left."""


def test_comparisons_of_sizes_are_folded() -> None:
    for nodes, expected in CONDITIONS.items():
        with row(nodes):
            text = f"g (float[N, 4] x) => (int64[1] y) <int64[1] two = {{2}}> {{ n = Shape<end=1>(x) {nodes} }}"
            assert operators(text) == expected


def test_ranks_of_results_with_unknown_sizes_are_known() -> None:
    for node in ("Expand(x, n)", "ConstantOfShape(n)", "Tile(x, n)", "Reshape(x, n)"):
        with row(node):
            text = f"g (float[2, 2] x, int64[2] n) => (int64 y) {{ a = {node} s = Shape(a) y = Size(s) }}"
            model = model_of(text)
            result = run("onnx.Simplify", model)
            assert op_types(result) == ["Constant"]
            arrays = np.ones((2, 2), np.float32), np.array([2, 2])
            assert outputs(result, *arrays) == outputs(model, *arrays) == [2]


def test_widened_constant_stays_small() -> None:
    proto = ir.to_proto(
        model_of("g (float[200] x, float16[200] w) => (float[200] y) { f = Cast<to=1>(w) y = Add(x, f) }")
    )
    del proto.graph.input[1]
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(200, np.float16), "w"))
    assert op_types(run("onnx.Simplify", ir.from_proto(proto))) == ["Cast", "Add"]


def test_constants_that_would_be_larger_are_computed() -> None:
    weights = ir.tensor(np.ones((64, 64), np.int8), name="w")
    rows = {
        "f = Cast<to=1>(w) y = MatMul(x, f)": ["Cast", "MatMul"],
        "t = Transpose(w) f = Cast<to=1>(t) y = MatMul(x, f)": ["Cast", "MatMul"],
        "t = Transpose(w) f = Cast<to=1>(t) g = Cast<to=1>(w) z = MatMul(x, f) y = MatMul(z, g)": [
            *("Transpose", "Cast", "Cast"),
            *("MatMul", "MatMul"),
        ],
    }
    for nodes, expected in rows.items():
        with row(nodes):
            model = model_of(f"g (float[2,64] x, int8[64,64] w) => (float y) {{ {nodes} }}")
            value = model.graph.inputs.pop()
            value.const_value = weights
            model.graph.register_initializer(value)
            result = run("onnx.Simplify", model)
            assert op_types(result) == expected
            assert len(ADAPTER.dumps(result)) <= len(ADAPTER.dumps(model))


def test_unused_constants_are_removed() -> None:
    text = "g (float[2] x) => (float[2] y) <float[2] c = {1, 2}> { n = Neg(c) m = Neg(n) y = Add(x, m) }"
    assert list(run("onnx.Simplify", model_of(text)).graph.initializers) == ["m"]
