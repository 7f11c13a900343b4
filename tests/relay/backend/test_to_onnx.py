"""`to_onnx`: structure of models, operators in all layouts and types, errors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given

from apass import relay
from apass.relay.backend import to_onnx
from apass.relay.errors import OpNotImplementedError
from apass.relay.expr import Call, Expr, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from apass.relay.frontend import from_onnx
from apass.relay.function import Function
from apass.relay.interpreter.compare_outputs import difference, random_arguments
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.testing.programs import programs
from apass.relay.transform.default import Default
from apass.relay.transform.fuse_ops.fuse_ops import FuseOps
from apass.relay.transform.support.run_for_tests import run_on
from apass.relay.ty import Any as AnyDim
from apass.relay.ty import TensorType, TupleType
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import levels
from tests.relay.backend.exporting import CHECKER, assert_same_outputs, checked, flat, tuple_of
from tests.relay.backend.round_trips import run_model

Make = Callable[[Expr], Any]
"""A function that builds a program for its input."""

X = var("x", shape=(2, 3))
IMAGES = var("x", shape=(1, 6, 8, 8))


def vector(size: int, first: int = 0) -> Expr:
    """Return a constant vector of consecutive numbers."""
    return const(np.arange(first, first + size, dtype="float32"))


def op_types(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_names_of_parameters_become_inputs_and_initializers() -> None:
    weight = var("w", shape=(4, 3))
    func = Function([X, weight], relay.nn.dense(X, weight))
    model = checked(func, params={"w": np.ones((4, 3), "float32")}, name="net", output_names=["y"])
    graph = model.graph
    assert (graph.name, [info.name for info in graph.input], [tensor.name for tensor in graph.initializer]) == (
        "net",
        ["x"],
        ["w"],
    )
    assert ([info.name for info in graph.output], op_types(model)) == (["y"], ["Gemm"])


def test_symbolic_dimensions_become_named() -> None:
    batch = relay.ShapeVar("batch")
    first, second = Var("x", TensorType((batch, 3))), Var("y", TensorType((AnyDim(), 3)))
    model = checked(Function([first, second], Tuple([relay.nn.relu(first), relay.nn.relu(second)])))
    dims = [info.type.tensor_type.shape.dim[0].dim_param for info in (*model.graph.input, *model.graph.output)]
    assert dims == ["batch", "y_dim_0", "batch", "output_1_dim_0"]


def test_result_that_is_an_input_is_copied() -> None:
    model = checked(Function([X], Tuple([X, X, relay.const(np.float32(1))])))
    assert op_types(model) == ["Identity"] * 3
    assert_same_outputs(Function([X], Tuple([X, X])))


def test_fields_of_tuples_become_inputs_and_outputs() -> None:
    pair = Var("p", TupleType([TensorType((2,)), TensorType((2,))]))
    swapped = Tuple([Tuple([TupleGetItem(pair, 1)]), relay.nn.relu(TupleGetItem(pair, 0))])
    model = checked(Function([pair], swapped))
    assert [info.name for info in model.graph.input] == ["p_0", "p_1"]
    assert [info.name for info in model.graph.output] == ["output_0", "output_1"]
    assert_same_outputs(Function([pair], swapped))


def test_unused_nodes_are_left_out() -> None:
    body = relay.nn.dropout(relay.nn.relu(X))
    assert op_types(checked(Function([X], body))) == ["Relu"]


def test_fused_and_composite_functions_are_inlined() -> None:
    mod = infer_module(IRModule.from_expr(Function([X], relay.nn.relu(relay.add(relay.exp(X), const(1.0))))))
    fused = run_on(FuseOps(), mod)
    assert any(isinstance(call.op, Function) for call in [fused["main"].body] if isinstance(call, Call))
    assert op_types(checked(fused)) == ["Exp", "Add", "Relu"]


def test_calls_of_global_functions_and_closures_are_inlined() -> None:
    y, z, local, twice = var("y", shape=(2, 3)), var("z", shape=(2, 3)), Var("f"), GlobalVar("twice")
    body = Let(local, Function([z], relay.add(z, X)), Call(twice, [Call(local, [X])]))
    mod = IRModule({twice: Function([y], relay.add(y, y)), GlobalVar("main"): Function([X], body)})
    assert op_types(checked(mod)) == ["Add", "Add"]
    assert_same_outputs(mod)


@pytest.mark.parametrize("flag", [True, False])
def test_if_becomes_if_with_shared_values_outside(flag: bool) -> None:
    condition = Var("c", TensorType((), "bool"))
    shared = relay.exp(X)
    func = Function([condition, X], If(condition, relay.add(shared, X), relay.negative(shared)))
    assert op_types(checked(func)) == ["Exp", "If"]
    assert_same_outputs(func, [np.asarray(flag), np.ones((2, 3), "float32")])


def test_tail_recursive_function_becomes_loop() -> None:
    step, total = Var("i", TensorType((), "int32")), Var("t", TensorType((), "int32"))
    loop, count = Var("loop"), Var("n", TensorType((), "int32"))
    body = If(relay.less(step, count), Call(loop, [relay.add(step, const(1)), relay.add(total, step)]), total)
    func = Function(
        [count], Let(loop, Function([step, total], body, TensorType((), "int32")), Call(loop, [const(0), const(0)]))
    )
    assert "Loop" in op_types(checked(func))
    for number in (0, 1, 5):
        assert_same_outputs(func, [np.asarray(number, "int32")])


def test_recursion_that_is_no_loop_is_an_error() -> None:
    number = Var("n", TensorType((), "int32"))
    loop = Var("f")
    again = relay.multiply(number, Call(loop, [relay.subtract(number, const(1))]))
    factorial = Function([number], If(relay.less(number, const(1)), const(1), again), TensorType((), "int32"))
    with pytest.raises(OpNotImplementedError, match="a recursive function has no ONNX form, unless its last step"):
        to_onnx(Function([], Let(loop, factorial, Call(loop, [const(5)]))))


@pytest.mark.parametrize("opset", [9, 10, 11, 12, 13, 17, 18, 21])
def test_versions_of_operators_have_equal_outputs(opset: int) -> None:
    body = relay.nn.softmax(relay.nn.pad(IMAGES, ((0, 0), (1, 0), (0, 0), (2, 2))), axis=1)
    parts = relay.split(relay.squeeze(relay.sum(body, axis=3, keepdims=True), axis=[3]), 7, axis=1)
    func = Function(
        [IMAGES], relay.concatenate([relay.expand_dims(relay.clip(part, 0.1, 0.9), 0) for part in parts], 1)
    )
    model = checked(func, opset_version=opset)
    assert model.opset_import[0].version == opset
    assert_same_outputs(func, opset_version=opset)


def test_default_version_is_raised_if_needed() -> None:
    func = Function([X], relay.cumprod(X, axis=1))
    assert to_onnx(func).opset_import[0].version == 26
    with pytest.raises(OpNotImplementedError, match="operator CumProd needs operator set 26 or newer, got 17; pass"):
        to_onnx(func, opset_version=17)


def conv_nhwc(x: Expr) -> Expr:
    weight = const(np.linspace(-1, 1, 3 * 3 * 8 * 4, dtype="float32").reshape(3, 3, 8, 4))
    return relay.nn.conv2d(x, weight, padding=1, data_layout="NHWC", kernel_layout="HWIO")


def conv_depthwise(x: Expr) -> Expr:
    weight = const(np.linspace(-1, 1, 6 * 2 * 9, dtype="float32").reshape(6, 2, 3, 3))
    return relay.nn.conv2d(x, weight, groups=6, channels=12, kernel_size=(3, 3))


def conv_blocks(x: Expr) -> Expr:
    data = relay.layout_transform(x, "NCHW", "NCHW2c")
    weight = const(np.linspace(-1, 1, 4 * 6 * 9, dtype="float32").reshape(4, 6, 3, 3))
    packed = relay.layout_transform(weight, "OIHW", "OIHW2i2o")
    return relay.nn.contrib_conv2d_nchwc(
        data, packed, channels=4, kernel_size=(3, 3), data_layout="NCHW2c", kernel_layout="OIHW2i2o"
    )


def conv_integers(x: Expr) -> Expr:
    weight = const(np.arange(-108, 108).reshape(4, 6, 3, 3), "int32")
    return relay.nn.conv2d(relay.cast(relay.multiply(x, const(10.0)), "int32"), weight, strides=2, padding=(1, 0, 2, 1))


def conv_transposed(x: Expr) -> Expr:
    weight = const(np.linspace(-1, 1, 6 * 2 * 9, dtype="float32").reshape(6, 2, 3, 3))
    return relay.nn.conv2d_transpose(x, weight, strides=(2, 2), padding=1, output_padding=1, groups=2)


LAYERS: list[Make] = [
    conv_nhwc,
    conv_depthwise,
    conv_blocks,
    conv_integers,
    conv_transposed,
    lambda x: relay.nn.max_pool2d(x, (3, 3), strides=(2, 2), padding=1, ceil_mode=True, layout="NHWC"),
    lambda x: relay.nn.max_pool2d(x, (2, 2), strides=(2, 2), padding=3),
    lambda x: relay.nn.avg_pool2d(x, (3, 3), strides=(2, 2), padding=1, ceil_mode=True, count_include_pad=True),
    lambda x: relay.nn.avg_pool2d(x, (3, 3), strides=(2, 2), padding=1, ceil_mode=True),
    lambda x: relay.nn.avg_pool2d(x, (3, 3), strides=(2, 3), padding=1, ceil_mode=True),
    lambda x: relay.nn.avg_pool2d(x, (2, 4), strides=(2, 3), padding=(0, 1, 2, 1)),
    lambda x: relay.nn.avg_pool2d(x, (2, 2), padding=3, count_include_pad=True),
    lambda x: relay.nn.adaptive_avg_pool2d(x, (3, 5)),
    lambda x: relay.nn.adaptive_max_pool2d(x, 1, layout="NHWC"),
    lambda x: relay.nn.global_avg_pool2d(x, layout="NHWC"),
    lambda x: relay.nn.l2_normalize(x, 1e-6, axis=[1]),
    lambda x: relay.nn.lrn(x, size=3, axis=3),
    lambda x: relay.nn.lrn(x, size=4, axis=1),
    lambda x: relay.nn.lrn(relay.reshape(x, (-1, 8)), size=2, axis=0),
    lambda x: relay.nn.mirror_pad(x, ((0, 0), (1, 2), (0, 0), (2, 0))),
    lambda x: relay.nn.pad(x, ((0, 0), (-1, 2), (0, -3), (1, 1)), pad_mode="edge"),
    lambda x: relay.nn.upsampling(x, 2, 2),
    lambda x: relay.nn.upsampling(x, 2, 3, method="bilinear", align_corners=True),
    lambda x: relay.image.resize2d(x, (5, 13), method="linear"),
    lambda x: relay.image.resize2d(x, (13, 5), layout="NHWC", method="nearest_neighbor", rounding_method="floor"),
    lambda x: relay.nn.depth_to_space(relay.concatenate([x, x], 1), 2, mode="CDR"),
    lambda x: relay.nn.space_to_depth(x, 2, layout="NHWC"),
    lambda x: relay.nn.space_to_batch_nd(x, (3, 2), ((0, 0), (1, 1))),
    lambda x: relay.nn.batch_to_space_nd(relay.reshape(x, (6, 1, 8, 8)), (1, 2), ((0, 0), (1, 1))),
    lambda x: relay.nn.dilate(x, (1, 2, 1, 3), 0.5),
    lambda x: relay.nn.batch_norm(x, vector(8), vector(8), vector(8), vector(8, 1), axis=3).astuple(),
    lambda x: relay.nn.layer_norm(x, vector(6), vector(6), axis=1),
    lambda x: relay.nn.group_norm(x, vector(6), vector(6), num_groups=3),
    lambda x: relay.nn.instance_norm(x, vector(8), vector(8), axis=2),
    lambda x: relay.nn.prelu(x, vector(8), axis=2),
]
"""Layers of networks, in several layouts."""


@pytest.mark.parametrize("make", LAYERS)
def test_layers_in_all_layouts_have_equal_outputs(make: Make) -> None:
    assert_same_outputs(Function([IMAGES], make(IMAGES)))


INTEGERS = var("i", shape=(3, 4), dtype="int32")
VALUES = np.arange(12, dtype="int32").reshape(3, 4) % 5 - 2


SIZED: list[Make] = [
    lambda x: relay.subtract(x, relay.multiply(x, x)),
    lambda x: relay.maximum(x, relay.minimum(x, relay.ones_like(x))),
    lambda x: relay.floor_mod(relay.negative(x), relay.maximum(x, relay.ones_like(x))),
    lambda x: relay.where(relay.less(x, relay.ones_like(x)), x, relay.zeros_like(x)),
    lambda x: relay.cumsum(x, axis=1),
    lambda x: relay.max(x, axis=1),
    lambda x: relay.clip(x, 0.0, 1.0),
    lambda x: relay.left_shift(x, relay.ones_like(x)),
    lambda x: relay.nn.relu(x),
]
"""Operators on integers of any size."""


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("make", SIZED)
def test_integers_of_all_sizes_keep_their_type(dtype: str, make: Make) -> None:
    data = var("x", shape=(3, 4), dtype=dtype)
    assert_same_outputs(Function([data], make(data)), [VALUES.astype(dtype)])


INTEGER_OPERATORS: list[Make] = [
    lambda x: relay.floor_divide(x, const(3)),
    lambda x: relay.trunc_mod(x, const(3)),
    lambda x: relay.right_shift(x, const(1)),
    lambda x: relay.bitwise_xor(x, const(5)),
    lambda x: relay.fixed_point_multiply(x, 1 << 30, 1),
    lambda x: relay.one_hot(x, const(2.0), const(-1.0), 3, 1, "float32"),
    lambda x: relay.take(const(np.arange(10)), x, mode="clip"),
    lambda x: relay.take(const(np.arange(10)), x, mode="wrap"),
    lambda x: relay.take(x, const([[1, 0], [2, 2], [0, 3]]), axis=1, batch_dims=1),
    lambda x: relay.gather_nd(x, const([[0, 1], [2, 3]])),
    lambda x: relay.adv_index([x, const([0, 2]), const([1])]),
    lambda x: TupleGetItem(tuple_of(relay.topk(x, 2, axis=0, is_ascend=True)), 1),
    lambda x: relay.sort(x, axis=1, is_ascend=0),
    lambda x: relay.argsort(x, axis=0),
    lambda x: relay.argmax(x, axis=(0, 1)),
    lambda x: relay.argmin(x, axis=1, keepdims=True, select_last_index=True),
    lambda x: relay.repeat(x, 2, axis=0),
    lambda x: relay.tile(x, (2, 1, 3)),
    lambda x: relay.reverse(x, axis=1),
    lambda x: relay.reverse_sequence(x, const([4, 2, 0]), 1, 0),
    lambda x: relay.strided_slice(x, [2, -1], [0, -4], [-1, -2]),
    lambda x: relay.strided_slice(x, [0, 1], [2, -1], slice_mode="size"),
    lambda x: relay.unravel_index(relay.abs(relay.reshape(x, (-1,))), const([3, 4])),
    lambda x: relay.meshgrid([relay.reshape(x, (-1,)), const([1, 2, 3])], indexing="xy").astuple(),
    lambda x: relay.reshape(x, (-4, 1, -1, -2)),
    lambda x: relay.any(relay.cast(x, "bool"), axis=0),
    lambda x: relay.mean(x, axis=1),
    lambda x: relay.sequence_mask(x, const([1, 2, 0, 3]), mask_value=9.0, axis=0),
    lambda x: relay.scatter_add(x, const(np.zeros((1, 4), "int64")), const(np.ones((1, 4), "int32")), 0),
]
"""Operators on 32-bit integers."""


@pytest.mark.parametrize("make", INTEGER_OPERATORS)
def test_operators_on_integers_have_equal_outputs(make: Make) -> None:
    assert_same_outputs(Function([INTEGERS], make(INTEGERS)), [VALUES])


@pytest.mark.parametrize("name", ["round", "trunc", "rsqrt", "log2", "log10", "isfinite", "sign", "ceil", "erf"])
def test_elementwise_operators_have_equal_outputs(name: str) -> None:
    data = np.array([[-2.5, -0.5, 0.49999997], [0.5, 1.5, np.inf]], "float32")
    operator: Callable[[Expr], Expr] = getattr(relay, name)
    assert_same_outputs(Function([X], operator(X)), [data])


def test_unknown_dimensions_are_computed_at_run_time() -> None:
    data = Var("x", TensorType((AnyDim(), AnyDim(), 4)))
    body = Tuple(
        [
            relay.reshape(data, (-3, -2)),
            relay.reshape(data, (0, 0, 2, 2)),
            relay.zeros_like(data),
            relay.sort(data, axis=1),
            relay.take(data, const([5]), axis=1),
        ]
    )
    assert_same_outputs(Function([data], body), [np.random.default_rng(0).random((2, 3, 4), "float32")])


@given(programs())
def test_generated_programs_have_equal_outputs(generated: Any) -> None:
    mod = infer_module(generated[0])
    try:
        model = to_onnx(mod)
    except OpNotImplementedError:
        return
    CHECKER.check_model(model, full_check=True)
    arguments = random_arguments(mod["main"])
    expected = flat(evaluate(mod, *arguments))
    outputs = run_model(model, [array for value in arguments for array in flat(value)])
    assert difference(tuple(expected), tuple(outputs)) == ""


def test_unsupported_operators_are_all_named() -> None:
    grad = Call(relay.op.get("nn.max_pool2d_grad"), (IMAGES, IMAGES), relay.nn.max_pool2d(IMAGES).attrs)
    body = Tuple([relay.op.debug(IMAGES), grad])
    with pytest.raises(OpNotImplementedError) as caught:
        to_onnx(Function([IMAGES], body))
    assert "to_onnx has no form for 2 operators: debug(Tensor[(1, 6, 8, 8), float32])" in str(caught.value)
    assert "; nn.max_pool2d_grad(Tensor[(1, 6, 8, 8), float32], Tensor[(1, 6, 8, 8), float32])" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"opset_version": 3}, "opset_version must be from 7 to"),
        ({"opset_version": "11"}, "opset_version must be from 7 to .*, got '11'"),
        ({"name": ""}, "name must be that of a graph, which is not empty"),
        ({"params": {1: 2}}, "params has the name 1, which main does not have"),
        ({"params": {"x": np.ones((1, 3), "float32")}}, r"must be Tensor.*, got float32\[1, 3\]"),
        ({"output_names": "y"}, "output_names must be 1 different names, got 'y'"),
        ({"output_names": [""]}, "output_names must be 1 different names"),
        ({"output_names": ["x"]}, "output_names must not be names of other parameters"),
        ({"params": {"y": 1}}, "params has the name 'y', which main does not have"),
        ({"params": {"x": np.ones(2)}}, "the value of parameter 'x' must be Tensor"),
        ({"output_names": ["a", "b"]}, "output_names must be 1 different names"),
    ],
)
def test_wrong_arguments_are_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        to_onnx(Function([X], relay.nn.relu(X)), **options)


def test_value_of_several_parameters_is_an_error() -> None:
    first, second = var("x", shape=(2,)), var("x", shape=(2,))
    with pytest.raises(ValueError, match="params has the name 'x', which 2 parameters of main have"):
        to_onnx(Function([first, second], relay.add(first, second)), {"x": np.ones(2, "float32")})


def test_other_programs_are_an_error() -> None:
    program: Any = relay.nn.relu(X)
    with pytest.raises(TypeError, match=r"to_onnx requires an IRModule or a Function, got .*Call"):
        to_onnx(program)


def test_output_may_have_the_name_of_its_input() -> None:
    model = checked(Function([X], Tuple([X, relay.negative(X)])), output_names=["x", "y"])
    assert ([value.name for value in model.graph.output], op_types(model)) == (["x", "y"], ["Neg"])


def test_function_as_a_result_is_an_error() -> None:
    with pytest.raises(OpNotImplementedError, match="only tensors and tuples have one"):
        to_onnx(Function([X], Function([], X)))


def test_empty_tuple_as_a_result_is_an_error() -> None:
    with pytest.raises(OpNotImplementedError, match="main returns no tensor, but an ONNX model needs an output"):
        to_onnx(Function([X], Tuple([])))


def test_deep_programs_are_exported() -> None:
    expr: Expr = X
    for _ in range(levels(20_000)):
        expr = relay.negative(expr)
    assert len(to_onnx(Function([X], expr)).graph.node) == levels(20_000)


def test_deep_functions_are_exported_in_linear_work() -> None:
    expr: Expr = relay.negative(X)
    for _ in range(levels(20_000)):
        expr = Call(Function([], expr), [])
    assert op_types(to_onnx(Function([X], expr))) == ["Neg"]


def test_file_is_read_by_the_importer_again(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    func = Function([X], relay.nn.relu(X))
    to_onnx(func, path=path)
    mod, params = from_onnx(path)
    assert (params, relay.structural_equal(mod["main"], func, map_free_vars=False)) == ({}, True)


def test_default_pipeline_of_networks_is_exported() -> None:
    mod, params = relay.testing.mobilenet.get_workload(batch_size=1, image_shape=(3, 32, 32), num_classes=10)
    bound = relay.bind_params_by_name(mod["main"], params)
    assert_same_outputs(run_on(Default(), IRModule.from_expr(bound)))


def test_transposes_that_undo_each_other_are_left_out() -> None:
    left, right, batch = var("x", shape=(2, 3)), var("y", shape=(3, 4)), var("z", shape=(2, 3, 4))
    dense = Function([left, right], relay.nn.dense(left, relay.transpose(right)))
    both = Function(
        [batch], relay.nn.batch_matmul(batch, relay.transpose(relay.transpose(batch, (0, 2, 1)), (0, 2, 1)))
    )
    around = Function([batch], relay.negative(relay.transpose(relay.transpose(batch, (1, 2, 0)), (1, 2, 0))))
    assert [op_types(checked(func)) for func in (dense, both, around)] == [
        ["MatMul"],
        ["Transpose", "MatMul"],
        ["Transpose", "Neg"],
    ]
    for func in (dense, both, around):
        assert_same_outputs(func)


def test_bias_is_added_by_its_layer() -> None:
    weight, bias = const(np.ones((4, 6, 3, 3), "float32")), const(np.arange(4, dtype="float32"))
    convolved = Function([IMAGES], relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(IMAGES, weight), bias)))
    product = Function([X], relay.add(relay.nn.dense(X, const(np.ones((4, 3), "float32"))), bias))
    shared = relay.nn.conv2d(IMAGES, weight)
    both = Function([IMAGES], Tuple([shared, relay.nn.bias_add(shared, bias)]))
    assert [op_types(checked(func)) for func in (convolved, product, both)] == [
        ["Conv", "Relu"],
        ["Gemm"],
        ["Conv", "Add"],
    ]
    for func in (convolved, product, both):
        assert_same_outputs(func)
