"""Modules made by xDSL and from ONNX: the results equal those of `mlir-opt`."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.builder import Builder
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IndexType, ModuleOp, i32
from xdsl.ir import BlockArgument

import apass
from apass.adapters.mlir import MLIRModule
from tests.helpers.mlir_modules import NEEDS_MLIR, mlir_opt

pytestmark = [NEEDS_MLIR, pytest.mark.process]


def xdsl_module() -> str:
    """Return a module that xDSL builds and prints: a loop, and a caller."""

    @ModuleOp
    @Builder.implicit_region
    def module() -> None:
        index = IndexType()

        @Builder.implicit_region((index, i32))
        def power(args: tuple[BlockArgument, ...]) -> None:
            count, base = args
            zero, one = (arith.ConstantOp.from_int_and_width(value, index) for value in (0, 1))
            start = arith.ConstantOp.from_int_and_width(1, i32)

            @Builder.implicit_region((index, i32))
            def body(inner: tuple[BlockArgument, ...]) -> None:
                scf.YieldOp(arith.MuliOp(inner[1], base))

            loop = scf.ForOp(zero, count, one, [start], body)
            func.ReturnOp(loop.results[0])

        func.FuncOp("power", ((index, i32), (i32,)), power)

        @Builder.implicit_region((i32,))
        def cube(args: tuple[BlockArgument, ...]) -> None:
            three = arith.ConstantOp.from_int_and_width(3, index)
            zero = arith.ConstantOp.from_int_and_width(0, i32)
            call = func.CallOp("power", [three.result, args[0]], [i32])
            func.ReturnOp(arith.AddiOp(call.results[0], zero))

        func.FuncOp("cube", ((i32,), (i32,)), cube)

    return str(module)


def onnx_model() -> onnx.ModelProto:
    """Return a model of `Relu(x @ w + b)` and a second layer, as in a classifier."""
    random = np.random.default_rng(0)
    weights = {"w1": (4, 8), "b1": (2, 8), "w2": (8, 3), "b2": (2, 3)}
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h1"]),
        helper.make_node("Add", ["h1", "b1"], ["a1"]),
        helper.make_node("Relu", ["a1"], ["r1"]),
        helper.make_node("MatMul", ["r1", "w2"], ["h2"]),
        helper.make_node("Add", ["h2", "b2"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(random.random(shape, np.float32), name) for name, shape in weights.items()],
    )
    return onnx.shape_inference.infer_shapes(helper.make_model(graph))


def mlir_of(model: onnx.ModelProto) -> str:
    """Convert a model of MatMul, Add and Relu to the dialects `linalg` and `arith`."""
    graph = model.graph
    values = [*graph.input, *graph.output, *graph.value_info]
    shapes = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in values}
    lines: list[str] = []
    for tensor in graph.initializer:
        array = numpy_helper.to_array(tensor)
        shapes[tensor.name] = list(array.shape)
        lines.append(f"  %{tensor.name} = arith.constant dense<{array.tolist()}> : {_type(shapes[tensor.name])}")
    for node in graph.node:
        tp, out = _type(shapes[node.output[0]]), f"%{node.output[0]}"
        inputs = [f"%{name}" for name in node.input]
        if node.op_type == "MatMul":
            types = ", ".join(_type(shapes[name]) for name in node.input)
            lines += [f"  {out}_empty = tensor.empty() : {tp}", f"  {out}_zero = arith.constant 0.0 : f32"]
            lines.append(f"  {out}_init = linalg.fill ins({out}_zero : f32) outs({out}_empty : {tp}) -> {tp}")
            operands = f"ins({', '.join(inputs)} : {types}) outs({out}_init : {tp})"
            lines.append(f"  {out} = linalg.matmul {operands} -> {tp}")
        elif node.op_type == "Add":
            lines.append(f"  {out} = arith.addf {', '.join(inputs)} : {tp}")
        else:
            assert node.op_type == "Relu"
            lines.append(f"  {out}_zero = arith.constant dense<0.0> : {tp}")
            lines.append(f"  {out} = arith.maximumf {inputs[0]}, {out}_zero : {tp}")
    x, y = graph.input[0].name, graph.output[0].name
    head = f"func.func @main(%{x}: {_type(shapes[x])}) -> {_type(shapes[y])} {{"
    return "\n".join([head, *lines, f"  return %{y} : {_type(shapes[y])}", "}", ""])


def _type(shape: list[int]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


TEXTS: dict[str, Callable[[], str]] = {"xdsl": xdsl_module, "onnx": lambda: mlir_of(onnx_model())}
LOWER = "convert-linalg-to-loops,convert-scf-to-cf,finalize-memref-to-llvm,convert-to-llvm,reconcile-unrealized-casts"
PIPELINES = [
    "builtin.module(canonicalize,cse)",
    "builtin.module(inline,func.func(canonicalize,cse),symbol-dce)",
    "builtin.module(linalg-fuse-elementwise-ops,func.func(convert-elementwise-to-linalg),canonicalize{top-down=false})",
    f"builtin.module(convert-elementwise-to-linalg,one-shot-bufferize{{bufferize-function-boundaries=true}},{LOWER})",
]


@pytest.mark.parametrize("source", TEXTS)
@pytest.mark.parametrize("text", PIPELINES)
@pytest.mark.anyio
async def test_results_equal_those_of_mlir_opt(source: str, text: str, anyio_backend: str) -> None:
    mod = MLIRModule(TEXTS[source]())
    pipeline = apass.parse_pipeline(f"mlir:{text}")
    merged = await pipeline(mod)
    async with apass.PassContext(instruments=[apass.testing.RecordingInstrument()]):
        single = await pipeline(mod)
    expected = mlir_opt(mod.text, text)
    assert [merged.text, single.text] == [expected, expected]
    assert expected != mod.text


def test_xdsl_module_has_functions() -> None:
    assert list(MLIRModule(xdsl_module()).functions) == ["power", "cube"]
